//! How things look: few colours of the terminal's own, and nothing told by colour alone.

use ratatui::style::{Color, Modifier, Style};

/// With colours, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// Whether colours are wanted (`NO_COLOR` says no).
    pub colours: bool,
}

impl Palette {
    const fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// Something is wrong.
    pub(super) const fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// It needs a person's attention.
    pub(super) const fn attention(self) -> Style {
        self.colour(Color::Magenta)
    }

    pub(super) const fn good(self) -> Style {
        self.colour(Color::Green)
    }

    pub(super) const fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) const fn dim() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The row that keys are about.
    pub(super) const fn chosen() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
