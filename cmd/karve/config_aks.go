// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/karve-dev/karve/cmd/internal/provisionmode"
	"github.com/karve-dev/karve/provider/azure"
)

// AKSMachinesConfig is which API creates VMs: Compute, or AKS in one of the cluster's agent
// pools.
type AKSMachinesConfig struct {
	ProvisionMode string
	// ManageExisting follows and terminates VMs that AKS created, though Compute creates new ones.
	ManageExisting bool
	Pool           string
	// VMs that are requested within BatchIdle of each other go in one request.
	BatchIdle, BatchMax time.Duration
	BatchSize           int
	// ClusterGroup is the resource group of the cluster itself, from the environment only
	// (ARM_RESOURCE_GROUP or AZURE_RESOURCE_GROUP).
	ClusterGroup string
}

func (c *AKSMachinesConfig) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.ProvisionMode, "provision-mode", provisionmode.Scriptless,
		"which API creates VMs: "+provisionmode.Scriptless+" (Compute), "+provisionmode.Machines+" (AKS, one by one) or "+provisionmode.Batches+" (AKS, many with one request)")
	flags.BoolVar(&c.ManageExisting, "manage-existing-aks-machines", false, "follow and terminate VMs that AKS created, while Compute creates new ones")
	flags.StringVar(&c.Pool, "aks-machines-pool-name", "", "agent pool of mode Machines in which AKS creates VMs (required for it to create or terminate any)")
	flags.DurationVar(&c.BatchIdle, "provider-batch-idle-duration", time.Second, "how long a launch waits for the next one to share its request")
	flags.DurationVar(&c.BatchMax, "provider-batch-max-duration", 5*time.Second, "how long a launch waits for others in all")
	flags.IntVar(&c.BatchSize, "provider-batch-max-size", azure.MostInBatch, "how many VMs one request asks for at most")
}

// createsVMs reports whether AKS creates new VMs.
func (c AKSMachinesConfig) createsVMs() bool { return c.ProvisionMode != provisionmode.Scriptless }

func (c AKSMachinesConfig) validate() error {
	var f faults
	f.oneOf("provision-mode", c.ProvisionMode, provisionmode.Scriptless, provisionmode.Machines, provisionmode.Batches)
	if c.createsVMs() || c.ManageExisting {
		f.given("aks-machines-pool-name", c.Pool)
		f.variable("ARM_RESOURCE_GROUP (or AZURE_RESOURCE_GROUP)", c.ClusterGroup, "the resource group of the cluster itself")
	}
	f.check(c.BatchSize >= 1 && c.BatchSize <= azure.MostInBatch, "provider-batch-max-size", "is between 1 and %d, got %d", azure.MostInBatch, c.BatchSize)
	f.check(c.BatchIdle > 0 && c.BatchMax >= c.BatchIdle, "provider-batch-max-duration", "must be at least the idle duration, which is above zero; got %s and %s", c.BatchMax, c.BatchIdle)
	return f.joined()
}

// options are those of the provider. A pool in which AKS neither creates VMs nor has any to
// manage is left out.
func (c AKSMachinesConfig) options() azure.AKSMachines {
	if !c.createsVMs() && !c.ManageExisting {
		return azure.AKSMachines{}
	}
	m := azure.AKSMachines{Pool: c.Pool, ResourceGroup: c.ClusterGroup, CreateNodes: c.createsVMs()}
	if c.ProvisionMode == provisionmode.Batches {
		m.Batching = azure.Batching{Idle: c.BatchIdle, MaxWait: c.BatchMax, Size: c.BatchSize}
	}
	return m
}
