//! The unix socket beside the lock (contract 14.7).

use std::os::unix::fs::PermissionsExt as _;

use symphony_memory::AgentScript;

use crate::harness::Harness;

#[tokio::test]
async fn rule_14_7_the_end_of_a_socket_leaves_the_next_one_alone() {
    let harness = Harness::new(AgentScript::new());
    harness.write("");
    let service = harness.builder().build().await.unwrap();
    let path = harness.root().join("~symphony/socket");
    for is_closed in [false, true] {
        let mut first = service.listen_locally().unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Then the file system may use the number of its file again.
        let listener = first.take_listener().filter(|_| !is_closed);
        let next = service.listen_locally().unwrap();
        drop((first, listener));
        assert!(path.exists(), "closed: {is_closed}");
        drop(next);
        assert!(!path.exists());
    }
}
