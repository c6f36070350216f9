// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"

	"github.com/karve-dev/karve/controller/manager"
)

// GuardConfig is how many NodeClaims may be created, and deleted voluntarily, before that looks like
// a mistake.
type GuardConfig struct {
	MaxCreations, MaxDeletions int // a minute
	MaxShare                   int // in percent of the fleet, a minute
}

// The defaults of creations are what Azure's limits on requests let one cluster create at most, so
// that they delay nothing.
const (
	defaultCreations = 500
	defaultDeletions = 200
	defaultShare     = 10
)

func (c *GuardConfig) bind(flags *pflag.FlagSet) {
	flags.IntVar(&c.MaxCreations, "max-creations-per-minute", defaultCreations, "how many NodeClaims are created a minute at most, those of five minutes at once if there were none before; 0 for any number")
	flags.IntVar(&c.MaxDeletions, "max-voluntary-deletions-per-minute", defaultDeletions, "how many NodeClaims are deleted a minute at most because of consolidation, drift, expiration or surplus, those of five minutes at once if there were none before; 0 for any number")
	flags.IntVar(&c.MaxShare, "max-fleet-share-per-minute", defaultShare, "how many percent of the nodes may be created, and deleted, a minute, where that is more than the two numbers above")
}

func (c GuardConfig) check(f *faults) {
	f.check(c.MaxCreations >= 0, "max-creations-per-minute", "must not be negative, got %d", c.MaxCreations)
	f.check(c.MaxDeletions >= 0, "max-voluntary-deletions-per-minute", "must not be negative, got %d", c.MaxDeletions)
	f.check(c.MaxShare >= 0 && c.MaxShare <= 100, "max-fleet-share-per-minute", "must be a percentage from 0 to 100, got %d", c.MaxShare)
}

func (c GuardConfig) limits() manager.Limits {
	return manager.Limits{CreationsPerMinute: c.MaxCreations, DeletionsPerMinute: c.MaxDeletions, SharePerMinute: c.MaxShare}
}
