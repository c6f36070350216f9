// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/cmd/internal/provisionmode"
	"github.com/karve-dev/karve/local"
	"github.com/karve-dev/karve/local/scenario"
)

// demoOptions are the flags.
type demoOptions struct {
	Once, Bare             bool
	StateDir, Controlplane string
	Karve                  string
	ProvisionMode          string
	Subnet                 string
	TimeScale              float64
}

func demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "karve-demo",
		Short: "Run the whole system on this machine: Kubernetes, Azure (emulated), karve",
		Long: "karve-demo starts a real Kubernetes control plane, an Azure emulator reached through the real Azure SDK,\n" +
			"simulated kubelets and karve, plays a scenario and stays up until Ctrl-C. Nothing leaves this machine.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), os.Stdout) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.Once, "once", false, "play the scenario, check each step, and exit")
	flags.BoolVar(&o.Bare, "bare", false, "start everything with a default AKSNodeClass, but no NodePool and no workload")
	flags.StringVar(&o.StateDir, "state-dir", local.DefaultDir, "folder for state, logs and the kubeconfig")
	flags.StringVar(&o.Controlplane, "controlplane", "", "the karve-controlplane binary (default: $KARVE_CONTROLPLANE, else beside karve-demo)")
	flags.StringVar(&o.Karve, "karve", "", "the karve binary (default: the one beside karve-demo, else in PATH)")
	flags.Float64Var(&o.TimeScale, "time-scale", 0.1, "how long Azure's delays last: 1 is real, 0.1 a tenth, 0 none")
	flags.StringVar(&o.ProvisionMode, "provision-mode", provisionmode.Scriptless,
		"which API creates VMs: "+provisionmode.Scriptless+" (Compute), "+provisionmode.Machines+" or "+provisionmode.Batches+" (AKS)")
	flags.StringVar(&o.Subnet, "subnet", "", "with --bare: the subnet of the nodes, such as 10.224.0.0/27 for few addresses (default 10.224.0.0/16)")
	cmd.MarkFlagsMutuallyExclusive("once", "bare")
	return cmd
}

func (o demoOptions) run(ctx context.Context, out *os.File) error {
	if err := o.checkSubnet(); err != nil {
		return err
	}
	var err error
	if o.Karve, err = karveBinary(o.Karve); err != nil {
		return err
	}
	voice := scenario.NewVoice(out, term.IsTerminal(int(out.Fd())))
	if !o.Bare {
		o.introduce(voice)
	}
	env, err := o.start(ctx, voice)
	if err != nil {
		return err
	}
	err = o.play(ctx, env, voice, out)
	if o.Bare || !o.Once {
		voice.Say("stopping")
	}
	if ctx.Err() != nil && !o.Once {
		err = nil // Ctrl-C is how one leaves
	}
	return errors.Join(err, env.Close())
}

// checkSubnet returns an error when the subnet is none that Azure's nodes can be in.
func (o demoOptions) checkSubnet() error {
	if o.Subnet == "" {
		return nil
	}
	if !o.Bare {
		return errors.New("--subnet needs --bare: the scenario has a subnet of its own")
	}
	prefix, err := netip.ParsePrefix(o.Subnet)
	if err != nil {
		return fmt.Errorf("--subnet: %w", err)
	}
	// Azure keeps five addresses of a subnet and has none smaller.
	if !prefix.Addr().Is4() || prefix.Bits() > 29 || prefix != prefix.Masked() {
		return fmt.Errorf("--subnet %s: want the first address of an IPv4 range of /29 or larger", o.Subnet)
	}
	return nil
}

func (o demoOptions) introduce(voice *scenario.Voice) {
	voice.Title("karve-demo: a Kubernetes cluster, an emulated Azure, and karve, on this machine")
	voice.Say("real: etcd, API server, scheduler, controller manager, karve, the Azure SDK over HTTPS")
	voice.Say("simulated: Azure itself and the kubelets. No container runs, nothing is billed")
	switch {
	case o.TimeScale == 0:
		voice.Say("Azure's delays are switched off: real VMs take about a minute")
	case o.TimeScale != 1:
		voice.Say("time is compressed: Azure's delays last %.3g of what they really do (a VM boots in %.0f s instead of about 60 s)",
			o.TimeScale, 60*o.TimeScale)
	}
}

func (o demoOptions) start(ctx context.Context, voice *scenario.Voice) (*local.Environment, error) {
	began := time.Now()
	options := local.Options{
		Dir: o.StateDir, Controlplane: o.Controlplane, Karve: o.Karve,
		ProvisionMode: o.ProvisionMode,
		// Like Azure's delays: karve watches a move for 15 s before it begins. No pod of a demo is
		// old enough to be expected to stay.
		KarveEnv:  []string{fmt.Sprintf("CONSOLIDATION_VALIDATION_DELAY=%dms", int(15_000*o.TimeScale)), "CONSOLIDATION_EXPECTED_STAY=0s"},
		Azure:     o.azure(),
		Restarted: func(what string) { voice.Say("%s", what) },
	}
	if !o.Bare {
		options.Progress = func(step string) { voice.Say("%s", step) }
	}
	env, err := local.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	if o.Bare {
		voice.Say("ready after %.1f s: KUBECONFIG=%s, Azure at %s (time scale %g), no NodePool yet",
			time.Since(began).Seconds(), env.Kubeconfig(), env.Emulator().URL(), o.TimeScale)
	}
	return env, nil
}

// azure is where the demo takes place. The scenario tells of a small subnet and a scarce family,
// and other workloads get what a subscription ordinarily has.
func (o demoOptions) azure() azureemulator.Options {
	if o.Bare {
		return azureemulator.Options{TimeScale: o.TimeScale, Seed: 1, SubnetPrefix: o.Subnet}
	}
	return scenario.Azure(o.TimeScale)
}

// play runs what was asked for and, unless it was asked to end, stays up.
func (o demoOptions) play(ctx context.Context, env *local.Environment, voice *scenario.Voice, out *os.File) error {
	if !o.Bare {
		times, err := scenario.Run(ctx, env, voice)
		if err != nil {
			return err
		}
		if o.Once {
			_, err := fmt.Fprintln(out, times)
			return err
		}
		voice.Say("%s", times)
		voice.Title("Everything stays up until Ctrl-C")
		voice.Say("export KUBECONFIG=%s", env.Kubeconfig())
		voice.Say("without kubectl of your own: ln -s karve-controlplane bin/kubectl && bin/kubectl get nodes")
		voice.Say("karve's log: %s", env.KarveLog())
	}
	return env.Wait(ctx)
}
