package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/karve-dev/karve/cmd/internal/provisionmode"
	"github.com/karve-dev/karve/provider/azure"
)

// AKSMachinesConfig are the settings of who makes machines: Compute, or AKS in one of the
// cluster's agent pools.
type AKSMachinesConfig struct {
	ProvisionMode string
	// ManageExisting follows and ends machines that AKS made, though new ones are Compute's.
	ManageExisting bool
	Pool           string
	// Machines that are asked for within BatchIdle of each other go in one request.
	BatchIdle, BatchMax time.Duration
	BatchSize           int
	// ClusterGroup is the resource group of the cluster itself, from the environment only
	// (ARM_RESOURCE_GROUP or AZURE_RESOURCE_GROUP).
	ClusterGroup string
}

func (c *AKSMachinesConfig) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.ProvisionMode, "provision-mode", provisionmode.Scriptless,
		"who makes machines: "+provisionmode.Scriptless+" (Compute), "+provisionmode.Machines+" (AKS, one by one) or "+provisionmode.Batches+" (AKS, many with one request)")
	flags.BoolVar(&c.ManageExisting, "manage-existing-aks-machines", false, "follow and end machines that AKS made, while Compute makes new ones")
	flags.StringVar(&c.Pool, "aks-machines-pool-name", "", "agent pool of mode Machines that AKS makes machines in (required for it to make or end any)")
	flags.DurationVar(&c.BatchIdle, "provider-batch-idle-duration", time.Second, "how long a machine waits for others to be asked for with it")
	flags.DurationVar(&c.BatchMax, "provider-batch-max-duration", 5*time.Second, "how long a machine waits for others at most")
	flags.IntVar(&c.BatchSize, "provider-batch-max-size", azure.MostInBatch, "how many machines are asked for with one request")
}

// buys reports whether AKS makes new machines.
func (c AKSMachinesConfig) buys() bool { return c.ProvisionMode != provisionmode.Scriptless }

func (c AKSMachinesConfig) validate() error {
	var f faults
	f.oneOf("provision-mode", c.ProvisionMode, provisionmode.Scriptless, provisionmode.Machines, provisionmode.Batches)
	if c.buys() || c.ManageExisting {
		f.given("aks-machines-pool-name", c.Pool)
		f.variable("ARM_RESOURCE_GROUP (or AZURE_RESOURCE_GROUP)", c.ClusterGroup, "the resource group of the cluster itself")
	}
	f.check(c.BatchSize >= 1 && c.BatchSize <= azure.MostInBatch, "provider-batch-max-size", "is between 1 and %d, got %d", azure.MostInBatch, c.BatchSize)
	f.check(c.BatchIdle > 0 && c.BatchMax >= c.BatchIdle, "provider-batch-max-duration", "must be at least the idle duration, which is above zero; got %s and %s", c.BatchMax, c.BatchIdle)
	return f.joined()
}

// options are the provider's. A pool that is neither bought in nor to be managed is none.
func (c AKSMachinesConfig) options() azure.AKSMachines {
	if !c.buys() && !c.ManageExisting {
		return azure.AKSMachines{}
	}
	m := azure.AKSMachines{Pool: c.Pool, ResourceGroup: c.ClusterGroup, Buy: c.buys()}
	if c.ProvisionMode == provisionmode.Batches {
		m.Batching = azure.Batching{Idle: c.BatchIdle, Most: c.BatchMax, Size: c.BatchSize}
	}
	return m
}
