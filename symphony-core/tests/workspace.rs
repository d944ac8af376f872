//! Workspace keys (contract 9.1).

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use symphony_core::WorkspaceKey;

fn derive(identifier: &str) -> String {
    let key = WorkspaceKey::derive(identifier).expect("an ordinary identifier");
    key.as_str().to_owned()
}

#[test]
fn rule_9_1_a_plain_identifier_is_its_own_key() {
    for identifier in ["MT-42", "a", "...", ".git", "A_b.c-9", "-rf", "a--b", &"x".repeat(100)] {
        assert_eq!(derive(identifier), identifier);
    }
}

#[test]
fn rule_9_1_other_characters_become_underscores_and_a_hash_tells_them_apart() {
    // The first 16 hex digits of SHA-256 of the identifier.
    assert_eq!(derive("a/b"), "a_b--c14cddc033f64b9d");
    assert_eq!(derive("a b"), "a_b--c8687a08aa5d6ed2");
    assert_eq!(derive("\u{e9}\u{1f600}"), "__--1184d1f608158eea");
    assert_eq!(derive("~root"), "_root--9af33ad6585e028e");
}

#[test]
fn rule_9_1_a_long_identifier_is_cut_at_100_bytes_and_hashed() {
    let key = derive(&"x".repeat(101));
    assert_eq!(key.len(), 100 + 18);
    assert!(key.starts_with(&format!("{}--", "x".repeat(100))));
    assert_ne!(derive(&"x".repeat(102)), key);
}

#[test]
fn rule_9_1_an_identifier_that_looks_like_a_hashed_key_is_hashed_too() {
    // Otherwise a person who may name an issue could name another issue's workspace.
    let key = derive("a/b");
    assert!(derive(&key).starts_with(&format!("{key}--")));
    assert_ne!(derive(&derive(&key)), derive(&key));
}

#[test]
fn rule_9_1_names_that_are_no_folder_are_refused() {
    for identifier in ["", ".", ".."] {
        assert!(WorkspaceKey::derive(identifier).is_err(), "{identifier:?}");
        assert!(WorkspaceKey::parse(identifier).is_err(), "{identifier:?}");
    }
}

#[test]
fn rule_9_1_a_name_that_no_identifier_gives_is_refused() {
    let digest = "--0123456789abcdef";
    let names = [
        "a/b".to_owned(),
        "~trash".to_owned(),
        "a b".to_owned(),
        "x".repeat(101),
        "x".repeat(118),
        format!("{}{digest}", "x".repeat(101)),
        format!("{}{digest}", "x".repeat(99)),
        format!("abc{digest}"),
    ];
    for name in names {
        assert!(WorkspaceKey::parse(&name).is_err(), "{name:?}");
        let quoted = serde_json::to_string(&name).expect("text");
        assert!(serde_json::from_str::<WorkspaceKey>(&quoted).is_err(), "{name:?}");
    }
}

/// Identifiers as people, trackers and attackers write them.
fn identifier() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Z]{2,4}-[0-9]{1,5}",
        "[a-zA-Z0-9._/ -]{1,12}",
        "[a_.]{0,3}(--[0-9a-f]{16}){0,2}",
        "[ab/]{95,125}",
        ".{0,40}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn rule_9_1_a_key_is_always_one_safe_component(identifier in identifier()) {
        if let Ok(key) = WorkspaceKey::derive(&identifier) {
            let name = key.as_str();
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            prop_assert!(name.chars().all(plain) && !name.is_empty() && name.len() <= 118);
            prop_assert!(name != "." && name != "..");
            prop_assert_eq!(&WorkspaceKey::parse(name), &Ok(key.clone()));
            let json = serde_json::to_string(&key).unwrap();
            prop_assert_eq!(serde_json::from_str::<WorkspaceKey>(&json).unwrap(), key);
        } else {
            prop_assert!(["", ".", ".."].contains(&identifier.as_str()));
        }
    }

    #[test]
    fn rule_9_1_distinct_identifiers_have_distinct_keys(one in identifier(), two in identifier()) {
        prop_assume!(one != two);
        let keys = [&one, &two].map(|identifier| WorkspaceKey::derive(identifier));
        if let [Ok(one), Ok(two)] = keys {
            prop_assert_ne!(one, two);
        }
    }

    /// The nearest thing to an attack: an identifier made from another one's key.
    #[test]
    fn rule_9_1_no_identifier_takes_anothers_key(identifier in identifier()) {
        if let Ok(key) = WorkspaceKey::derive(&identifier) {
            let again = WorkspaceKey::derive(key.as_str()).unwrap();
            prop_assert!(again != key || key.as_str() == identifier);
        }
    }

    /// What is accepted without a hash is its own key; what has one could have been derived.
    #[test]
    fn rule_9_1_only_derived_names_are_accepted(name in identifier()) {
        let own = WorkspaceKey::derive(&name).is_ok_and(|key| key.as_str() == name);
        let hashed = name.len() > 18 && name.is_char_boundary(name.len() - 18) && {
            let (prefix, digest) = name.split_at(name.len() - 18);
            let hash = digest.strip_prefix("--").unwrap_or_default();
            let hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
            let changed = prefix.contains('_')
                || prefix.len() == 100
                || WorkspaceKey::derive(prefix).is_ok_and(|key| key.as_str() != prefix);
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            hash.len() == 16 && hash.chars().all(hex) && changed
                && prefix.len() <= 100 && prefix.chars().all(plain)
        };
        prop_assert_eq!(WorkspaceKey::parse(&name).is_ok(), own || hashed, "{}", name);
    }
}
