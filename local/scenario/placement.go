// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/local"
	"github.com/karve-dev/karve/local/storage"
)

// zones is how many the region has, and maxSkew what web's manifest allows.
const (
	zones   = 3
	maxSkew = 1
)

// checkPlacement checks that pods landed where their manifests allow, and shows it.
func (s *runner) checkPlacement(ctx context.Context) error {
	s.voice.Title("Every pod runs where its constraints allow")
	now, err := look(ctx, s.env)
	if err != nil {
		return err
	}
	counts := spread(now, "web")
	if err := checkSpread(counts); err != nil {
		return fmt.Errorf("web: %w", err)
	}
	s.voice.Say("web is spread over the zones: %s", spreadText(counts))
	volumes, err := volumeZones(ctx, s.env)
	if err != nil {
		return err
	}
	places := locationsOf(now, "db", volumes)
	if err := checkLocations(places); err != nil {
		return fmt.Errorf("db: %w", err)
	}
	s.voice.Say("each db pod has a node of its own, in the zone of its disk")
	s.voice.Block(locationTable(places))
	return nil
}

// spread counts the pods of an app by the zone of their nodes.
func spread(s state, app string) map[string]int {
	counts := map[string]int{}
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Labels["app"] == app && p.DeletionTimestamp == nil && p.Spec.NodeName != "" {
			counts[s.zoneOf(p.Spec.NodeName)]++
		}
	}
	return counts
}

// zoneOf is the zone of a node, empty when karve did not launch it.
func (s state) zoneOf(node string) string {
	for i := range s.Nodes {
		if s.Nodes[i].Name == node {
			return s.Nodes[i].Labels[corev1.LabelTopologyZone]
		}
	}
	return ""
}

func checkSpread(counts map[string]int) error {
	if len(counts) != zones {
		return fmt.Errorf("its pods are in %d zones instead of %d: %s", len(counts), zones, spreadText(counts))
	}
	each := slices.Collect(maps.Values(counts))
	if slices.Max(each)-slices.Min(each) > maxSkew {
		return fmt.Errorf("zones differ by more than %d: %s", maxSkew, spreadText(counts))
	}
	return nil
}

// spreadText returns "20 in eastus-1, 20 in eastus-2".
func spreadText(counts map[string]int) string {
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d in %s", counts[zone], zone))
	}
	return strings.Join(parts, ", ")
}

// volumeZones is where the disk of each bound claim lies, by the claim's name.
func volumeZones(ctx context.Context, env *local.Environment) (map[string]string, error) {
	var list corev1.PersistentVolumeList
	if err := env.Client().List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	var claims corev1.PersistentVolumeClaimList
	if err := env.Client().List(ctx, &claims, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing volume claims: %w", err)
	}
	byVolume := map[string]string{}
	for i := range list.Items {
		byVolume[list.Items[i].Name] = storage.ZoneOf(&list.Items[i])
	}
	byClaim := map[string]string{}
	for _, c := range claims.Items {
		if c.Status.Phase == corev1.ClaimBound {
			byClaim[c.Name] = byVolume[c.Spec.VolumeName]
		}
	}
	return byClaim, nil
}

// podLocation is where a pod and its disk are.
type podLocation struct {
	Pod, Node, Zone string
	Claim, DiskZone string // DiskZone is empty while the claim is not bound
}

// locationsOf lists the places of an app's pods, by name.
func locationsOf(s state, app string, volumes map[string]string) []podLocation {
	var places []podLocation
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Labels["app"] != app || p.DeletionTimestamp != nil {
			continue
		}
		h := podLocation{Pod: p.Name, Node: p.Spec.NodeName, Zone: s.zoneOf(p.Spec.NodeName)}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				h.Claim = v.PersistentVolumeClaim.ClaimName
				h.DiskZone = volumes[h.Claim]
			}
		}
		places = append(places, h)
	}
	slices.SortFunc(places, func(a, b podLocation) int { return strings.Compare(a.Pod, b.Pod) })
	return places
}

// checkLocations reports pods that share a node or are not where their disk is.
func checkLocations(places []podLocation) error {
	if len(places) == 0 {
		return errors.New("it has no pods")
	}
	var errs []error
	tenant := map[string]string{}
	for _, h := range places {
		if other, taken := tenant[h.Node]; taken {
			errs = append(errs, fmt.Errorf("%s and %s share node %s", other, h.Pod, h.Node))
		}
		tenant[h.Node] = h.Pod
		if h.DiskZone == "" || h.DiskZone != h.Zone {
			errs = append(errs, fmt.Errorf("%s runs in zone %q, its claim %s has a disk in %q", h.Pod, h.Zone, h.Claim, h.DiskZone))
		}
	}
	return errors.Join(errs...)
}

func locationTable(places []podLocation) string {
	return columns(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "POD\tNODE\tZONE\tCLAIM\tDISK IN")
		for _, h := range places {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.Pod, h.Node, h.Zone, h.Claim, h.DiskZone)
		}
	})
}
