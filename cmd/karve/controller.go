package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func controllerCommand() *cobra.Command {
	var c Config
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller (what a cluster's Deployment runs)",
		Long: "controller provisions nodes for the cluster that KUBECONFIG or the pod's service account names.\n" +
			"Every flag can be set by the environment variable of the same name in upper snake case.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := dieWithParent(); err != nil {
				return err
			}
			if err := c.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return fmt.Errorf("the configuration is not usable:\n%w", err)
			}
			return run(cmd.Context(), c)
		},
	}
	c.bind(cmd.Flags())
	return cmd
}

// complete fills what flags left open from the environment, and validates.
func (c *Config) complete(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	if err := fillFromEnvironment(flags, lookup); err != nil {
		return err
	}
	c.Azure.readEnvironment(lookup)
	return c.Validate()
}

// limitMemory tells Go's collector to keep well below the container's limit, past
// which the kernel would kill us.
func limitMemory(limit int64) {
	if limit > 0 {
		debug.SetMemoryLimit(int64(math.Floor(float64(limit) * 0.9)))
	}
}

func run(ctx context.Context, c Config) error {
	limitMemory(c.Core.MemoryLimit)
	_ = ctx
	return nil
}
