// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/azureemulator"
)

// The scenario's subscription has little quota for the family that is cheapest for web, and its
// subnet has addresses for some two dozen nodes.
const (
	scarceFamily = "standardDASv5Family"
	scarceCores  = 20
	smallSubnet  = "10.224.0.0/27"
)

// Azure is where the scenario takes place.
func Azure(timeScale float64) azureemulator.Options {
	return azureemulator.Options{TimeScale: timeScale, Seed: 1, Quota: map[string]int{scarceFamily: scarceCores}, SubnetPrefix: smallSubnet}
}

// checkQuota reports how a family's quota was used up without a request beyond it.
func (s *runner) checkQuota(context.Context) error {
	var used azureemulator.Usage
	for _, u := range s.env.Emulator().Capacity.Usages() {
		if strings.EqualFold(u.Name, scarceFamily) {
			used = u
		}
	}
	s.voice.Title("The subscription has a quota of %d vCPUs of family DASv5", used.Limit)
	s.voice.Say("%d of them are in use; the other web nodes are of the next cheapest family", used.Current)
	return s.checkPurchases()
}

// checkPurchases reports that no launch was requested in vain.
func (s *runner) checkPurchases() error {
	if refused := s.refusals(); refused > s.refused {
		return fmt.Errorf("Azure refused %d launches", refused-s.refused)
	}
	s.voice.Say("Azure refused no launch")
	return nil
}

// refusals counts the launches that Azure refused so far.
func (s *runner) refusals() int {
	return s.env.Emulator().Ledger().RefusedByOperation["VirtualMachines.CreateOrUpdate"]
}

// fillSubnet asks for more nodes than the subnet has addresses, shows the events of the pods that
// wait, and deletes the others again.
func (s *runner) fillSubnet(ctx context.Context) error {
	s.voice.Title("More nodes are needed than the subnet has addresses")
	before, err := look(ctx, s.env)
	if err != nil {
		return err
	}
	s.refused = s.refusals()
	if err := s.env.Apply(ctx, edge); err != nil {
		return err
	}
	s.voice.Say("Deployment edge: 30 × 0.1 CPU, no two on a node; the subnet %s has addresses for some two dozen nodes", smallSubnet)
	told := ""
	err = s.waitFor(ctx, "the subnet is full, and every pending pod has an event that says so", func(now state) (bool, error) {
		s.voice.Now("%s", now.summary())
		waiting := now.pods("edge") - now.running("edge")
		if waiting == 0 || len(now.Claims) == len(before.Claims) || now.readyNodes() < len(now.Claims) {
			return false, nil
		}
		told, err = s.toldOfAddresses(ctx)
		return told != "", err
	})
	if err != nil {
		return err
	}
	now, err := look(ctx, s.env)
	if err != nil {
		return err
	}
	s.voice.Say("%d nodes were launched, %d edge pods run, %d wait, with this reason:", len(now.Claims)-len(before.Claims), now.running("edge"), now.pods("edge")-now.running("edge"))
	s.voice.Block(told)
	if err := s.checkPurchases(); err != nil {
		return err
	}
	return s.leaveSubnet(ctx, len(before.Claims))
}

// leaveSubnet deletes the edge pods and waits until their nodes are deleted.
func (s *runner) leaveSubnet(ctx context.Context, nodes int) error {
	if err := s.scale(ctx, "edge", 0); err != nil {
		return err
	}
	err := s.waitFor(ctx, "the nodes of edge are deleted", func(now state) (bool, error) {
		s.voice.Now("%s", now.summary())
		return now.pods("edge") == 0 && idle(now) == 0 && len(now.Claims) <= nodes && len(now.Nodes) == len(now.Claims), nil
	})
	if err != nil {
		return err
	}
	s.voice.Say("edge is scaled to 0, and its nodes are deleted")
	return nil
}

// toldOfAddresses is the event of a pending edge pod about the subnet; empty while there is none.
func (s *runner) toldOfAddresses(ctx context.Context) (string, error) {
	var events corev1.EventList
	if err := s.env.Client().List(ctx, &events, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("listing events: %w", err)
	}
	for _, e := range events.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, "edge-") && strings.Contains(e.Message, "addresses left") {
			return e.Message, nil
		}
	}
	return "", nil
}
