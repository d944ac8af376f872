//! The shapes of descendants that tests of whole trees use, here and in `symphony-cli`.

/// A matrix of tests: a module for each cause, and in it a test for each shape, which hands the shape
/// to the cause's function. Its user has a `run` that calls such a function.
macro_rules! matrix {
    ($($cause:ident => $end:expr;)+) => { $(
        mod $cause {
            use super::*;
            matrix!(@cells $end; in_the_group InTheGroup, term_ignoring TermIgnoring,
                job_control JobControl, setsid Setsid, double_forked DoubleForked,
                empty_environment EmptyEnvironment, pid_rolling PidRolling, stopped Stopped);
        }
    )+ };
    (@cells $end:expr; $($name:ident $shape:ident),+) => { $(
        #[test]
        fn $name() {
            run($end, Shape::$shape);
        }
    )+ };
}
pub(crate) use matrix;

/// What a descendant may do to get out of sight.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    InTheGroup,
    TermIgnoring,
    JobControl,
    Setsid,
    DoubleForked,
    EmptyEnvironment,
    PidRolling,
    Stopped,
}

impl Shape {
    /// Starts such a process in the background. It makes the file `$R` and lives for `$T` seconds,
    /// so that a test that fails leaves nothing for long. `$R` and `$T` are in the environment.
    pub(crate) const fn script(self) -> &'static str {
        match self {
            Self::InTheGroup => r#"sleep $T & : > "$R""#,
            Self::TermIgnoring => r#"sh -c 'trap "" TERM INT HUP; : > "$R"; sleep $T' &"#,
            Self::JobControl => r#"bash -mc 'sleep $T & : > "$R"; wait' &"#,
            Self::Setsid => r#"setsid sh -c ': > "$R"; exec sleep $T' &"#,
            Self::DoubleForked => r#"(setsid sh -c ': > "$R"; exec sleep $T' &)"#,
            Self::EmptyEnvironment => {
                r#"(env -i setsid sh -c ': > "$1"; exec sleep "$2"' sh "$R" $T &)"#
            }
            // Each one starts the next in a session of its own and is gone: one at a time, a hundred
            // in all, and the last one ends after a while, and tells that it was not ended.
            Self::PidRolling => {
                r#"S='trap "" TERM; [ "$2" -gt 0 ] || { sleep 20 && : > "$R.escaped"; exit; }
                    setsid sh -c "$1" roll "$1" $(($2 - 1)) & : > "$R"; exit 0'
                sh -c "$S" roll "$S" 100 &"#
            }
            // In a session of its own: others are woken when their leader ends.
            Self::Stopped => r#"setsid sh -c ': > "$R"; kill -STOP $$; exec sleep $T' &"#,
        }
    }
}
