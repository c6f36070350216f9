// SPDX-License-Identifier: Apache-2.0

// Command bench compares karve's engine with upstream Karpenter's scheduler: same
// inputs, same process, same run. See README.md for what is timed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	only                                   *regexp.Regexp
	quick, karveOnly, list, update, growth bool
	profile, allocations                   string // files of profiles
	results                                string
	limit                                  time.Duration // see shrinkLimit
	started                                time.Time
}

func parse(args []string) (config, error) {
	c := config{started: time.Now()}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "run only the scenarios whose name this regular expression finds; saves nothing without -update")
	flags.BoolVar(&c.quick, "quick", false, "small sizes: about four minutes")
	flags.BoolVar(&c.update, "update", false, "with -only: replace the rows of these scenarios in the saved results")
	flags.BoolVar(&c.karveOnly, "karve-only", false, "leave upstream out; saves nothing")
	flags.DurationVar(&c.limit, "limit", 0, "for how long either side may decide how to consolidate a cluster (default 5m, 30s with -quick)")
	flags.BoolVar(&c.list, "list", false, "name the scenarios and stop")
	flags.BoolVar(&c.growth, "growth", false, "print only how the time of each hard family grows when its size doubles (karve alone; with -only: of these families)")
	flags.StringVar(&c.profile, "cpuprofile", "", "write a CPU profile of our side to this file (with -karve-only: of nothing else)")
	flags.StringVar(&c.allocations, "memprofile", "", "write a profile of what was allocated to this file")
	flags.StringVar(&c.results, "results", "results", "folder for latest.json, README.md and scaling.svg")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	var err error
	if c.only, err = regexp.Compile(*only); err != nil {
		return c, fmt.Errorf("reading -only: %w", err)
	}
	if c.update && (c.quick || c.karveOnly) {
		return c, errors.New("-update takes neither -quick nor -karve-only: saved rows have both sides at full size")
	}
	if c.growth && (c.quick || c.update || c.list) {
		return c, errors.New("-growth takes none of -quick, -update and -list")
	}
	return c, nil
}

// partial runs are for the developer's eyes: they leave the saved results alone, unless they update
// them.
func (c config) partial() bool { return (c.only.String() != "" || c.karveOnly) && !c.update }

func run(ctx context.Context, args []string) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	if c.profile != "" {
		f, err := os.Create(c.profile)
		if err != nil {
			return fmt.Errorf("making the CPU profile: %w", err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("starting the CPU profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	decide := c.bench
	if c.growth {
		decide = c.reportGrowth
	}
	if err := decide(ctx); err != nil || c.allocations == "" {
		return err
	}
	return writeAllocations(c.allocations)
}

// writeAllocations writes a profile of everything that the process has allocated.
func writeAllocations(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("making the profile of allocations: %w", err)
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
