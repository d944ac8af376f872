//! A helper for programs that cannot call [`symphony_host::init`] in their own `main`.

fn main() {
    symphony_host::init();
    eprintln!("symphony-helper is started by Symphony, below each of its commands.");
}
