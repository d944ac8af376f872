//! The process above each command of a service in a test: a test program has no `main` of its own.

fn main() {
    symphony_host::init();
}
