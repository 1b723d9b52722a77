//! Units of a partition, and how stripes share them.

/// Which units of a partition to read: every unit `u` from `from` on with `u % stripes == stripe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    /// The first unit that may be read.
    pub from: u64,
    /// Which remainder is wanted.
    pub stripe: u64,
    /// The divisor; at least 1.
    pub stripes: u64,
}

impl Units {
    /// All units.
    pub const ALL: Units = Units {
        from: 0,
        stripe: 0,
        stripes: 1,
    };

    /// Whether this unit is wanted.
    pub fn contains(&self, unit: u64) -> bool {
        unit >= self.from && unit % self.stripes.max(1) == self.stripe
    }

    /// The wanted units out of the first `count`, in order.
    pub fn within(self, count: u64) -> impl Iterator<Item = u64> + Send + 'static {
        let stripes = self.stripes.max(1);
        let past = self.from % stripes;
        let ahead = (self.stripe % stripes + stripes - past) % stripes;
        let first = self.from.saturating_add(ahead);
        (first..count).step_by(usize::try_from(stripes).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_share_out_every_unit_once() {
        for stripes in 1..5 {
            for from in 0..9 {
                let mut all: Vec<u64> = (0..stripes)
                    .flat_map(|stripe| {
                        Units {
                            from,
                            stripe,
                            stripes,
                        }
                        .within(20)
                    })
                    .collect();
                all.sort_unstable();
                assert_eq!(
                    all,
                    (from..20).collect::<Vec<_>>(),
                    "{stripes} stripes from {from}"
                );
            }
        }
        let units = Units {
            from: 4,
            stripe: 1,
            stripes: 3,
        };
        assert!(units.within(20).all(|unit| units.contains(unit)));
    }
}
