//! Gives the schema to cynic's derives.

fn main() {
    #[expect(clippy::expect_used, reason = "the file is part of the crate")]
    cynic_codegen::register_schema("linear")
        .from_sdl_file("schema.graphql")
        .expect("schema.graphql can be read")
        .as_default()
        .expect("schema.graphql is a schema");
}
