// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// pod: pod web cpu=500m mem=1Gi [namespace=team-a] [label:key=value] [priority=5]
// [created=seconds] [on=node] [not-movable] [daemon-of=uid] [terminating] [virtual] [owner=uid]
// [refused=words] [require:key=Op:a|b] [or:1:key=Op:a|b] [prefer~50:key=Op:a|b]
// [prefer~50:1:key=Op:a|b] [tolerate:key=value:Effect] [spread=…] [affinity=…] [anti-affinity=…]
// [port=…] [volume=…] [volume-in:key=Op:a|b] [any other resource=amount]
//
// Rules of one or, prefer or volume-in with the same number are one term. The five
// long words are explained at spread, podTerm, port, and volume.
func (s *Script) pod(name string, args []string) error {
	r := podReader{terms: grouped{}, preferred: map[string]int{}, places: grouped{}}
	r.PodRef = cluster.PodRef{Namespace: "default", Name: name, UID: name}
	r.Requests = quantity.Amounts{quantity.NamePods: 1}
	r.Created = time.Unix(int64(len(s.Pods)), 0)
	for _, arg := range args {
		if err := r.word(arg); err != nil {
			return err
		}
	}
	if err := r.readPodTerms(); err != nil {
		return err
	}
	s.Pods = append(s.Pods, r.Pod)
	return nil
}

// podReader reads one pod line.
type podReader struct {
	cluster.Pod
	terms     grouped
	preferred map[string]int
	places    grouped
	// podTerms are spread, affinity and anti-affinity: by default they select the pod's own
	// labels, which may come after.
	podTerms []string
}

func (r *podReader) word(arg string) error {
	key, value, _ := strings.Cut(arg, "=")
	kind, rest, _ := strings.Cut(key, ":")
	base, weight, _ := strings.Cut(kind, "~")
	var err error
	switch {
	case kind == "require":
		r.Required = append(r.Required, rule(rest, value))
	case kind == "or":
		r.AnyOf = r.terms.add(r.AnyOf, rest, value)
	case base == "prefer":
		err = r.prefer(weight, rest, value)
	case kind == "tolerate":
		r.Tolerations = append(r.Tolerations, toleration(rest, value))
	case kind == "label":
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[label(rest)] = plain(value)
	case key == "spread" || kind == key && (base == "affinity" || base == "anti-affinity"):
		r.podTerms = append(r.podTerms, arg)
	case key == "port":
		var p cluster.Port
		if p, err = port(value); err == nil {
			r.Ports = append(r.Ports, p)
		}
	case key == "volume":
		err = r.volume(value)
	case kind == "volume-in" && len(r.Volumes) > 0:
		last := &r.Volumes[len(r.Volumes)-1]
		last.AnyOf = r.places.add(last.AnyOf, rest, value)
	case key == "namespace":
		r.Namespace = value
	case key == "uid":
		r.UID = value
	case key == "priority":
		r.Priority, err = int32Of(value)
	case key == "created":
		var n int64
		n, err = strconv.ParseInt(value, 10, 64)
		r.Created = time.Unix(n, 0)
	case key == "on":
		r.Node, r.ReschedulableNow = value, true
	case key == "daemon-of":
		r.DaemonSet, r.ReschedulableNow = value, false
	case arg == "not-movable":
		r.ReschedulableNow = false
	case arg == "terminating":
		r.Terminating = true
	case arg == "virtual":
		r.Virtual = true
	case key == "owner":
		r.Owner = value
	case key == "refused":
		r.Refused, r.RefusedDetail = reason.Volumes, plain(value)
	default:
		err = amount(r.Requests, key, value)
	}
	return err
}

func (r *podReader) prefer(weight, rest, value string) error {
	w, err := int32Of(weight)
	if err != nil {
		return fmt.Errorf("prefer~WEIGHT:key=Op:values, not prefer~%s", weight)
	}
	id, key, numbered := strings.Cut(rest, ":")
	if !numbered {
		r.Preferred = append(r.Preferred, cluster.PreferredSchedulingTerm{Weight: w, Term: cluster.Term{rule(rest, value)}})
		return nil
	}
	i, ok := r.preferred[id]
	if !ok {
		i = len(r.Preferred)
		r.preferred[id] = i
		r.Preferred = append(r.Preferred, cluster.PreferredSchedulingTerm{Weight: w})
	}
	if key != "" || value != "" {
		r.Preferred[i].Term = append(r.Preferred[i].Term, rule(key, value))
	}
	return nil
}

// port: port=TCP/8080 or port=TCP/127.0.0.1:53
func port(text string) (cluster.Port, error) {
	protocol, address, ok := strings.Cut(text, "/")
	ip, number := "", address
	if strings.Contains(address, ":") {
		var err error
		if ip, number, err = net.SplitHostPort(address); err != nil {
			return cluster.Port{}, err
		}
	}
	n, err := int32Of(number)
	if !ok || err != nil {
		return cluster.Port{}, fmt.Errorf("%q is not a port: say TCP/8080", text)
	}
	return cluster.Port{Protocol: protocol, IP: ip, Port: n}, nil
}

// volume: volume=ID[:driver][:shared|:exclusive]; volume-in words that follow say where it can
// be mounted. The claim of an exclusive volume is one that one pod at a time may use.
func (r *podReader) volume(text string) error {
	f := strings.Split(text, ":")
	v := cluster.Volume{ID: plain(f[0])}
	for i, word := range f[1:] {
		switch {
		case word == "shared":
			v.Shared = true
		case word == "exclusive":
			r.ExclusiveClaims = append(r.ExclusiveClaims, claimOf(r.Namespace, v))
		case i == 0:
			v.Driver = plain(word)
		default:
			return fmt.Errorf("%q is not a volume: say ID:driver:shared or ID:driver:exclusive", text)
		}
	}
	r.Volumes = append(r.Volumes, v)
	r.places = grouped{}
	return nil
}

// claimOf is the claim of an exclusive volume.
func claimOf(namespace string, v cluster.Volume) string { return namespace + "/" + v.ID }

func (r *podReader) readPodTerms() error {
	for _, arg := range r.podTerms {
		key, value, _ := strings.Cut(arg, "=")
		kind, weight, _ := strings.Cut(key, "~")
		if kind == "spread" {
			if err := r.spread(value); err != nil {
				return err
			}
			continue
		}
		t, err := r.podTerm(value, weight)
		if err != nil {
			return err
		}
		if kind == "affinity" {
			r.Affinity = append(r.Affinity, t)
		} else {
			r.AntiAffinity = append(r.AntiAffinity, t)
		}
	}
	return nil
}

// spread: spread=KEY:maxSkew[:soft][:min=3][:ignore-affinity][:honor-taints][:selector]
// The selector is the pod's own labels when there is none.
func (r *podReader) spread(text string) error {
	f := strings.Split(text, ":")
	if len(f) < 2 {
		return fmt.Errorf("spread takes KEY:maxSkew, not %q", text)
	}
	c := cluster.TopologySpreadConstraint{Key: label(f[0]), Selector: cluster.Selector{Namespaces: []string{r.Namespace}, Labels: r.ownLabels()}}
	var err error
	if c.MaxSkew, err = int32Of(f[1]); err != nil {
		return err
	}
	for _, word := range f[2:] {
		least, isMin := strings.CutPrefix(word, "min=")
		switch {
		case isMin:
			if c.MinDomains, err = int32Of(least); err != nil {
				return err
			}
		case word == "soft":
			c.Soft = true
		case word == "ignore-affinity":
			c.IgnoreAffinity = true
		case word == "honor-taints":
			c.HonorTaints = true
		default:
			if err := selectLabels(&c.Selector, word); err != nil {
				return err
			}
		}
	}
	r.Spreads = append(r.Spreads, c)
	return nil
}

// podTerm: affinity=KEY[:selector][:in=ns|ns][:where=selector], anti-affinity=…, and
// affinity~50=… for a preference. Namespaces are the pod's own when there is no in and no where.
func (r *podReader) podTerm(text, weight string) (cluster.PodAffinityTerm, error) {
	f := strings.Split(text, ":")
	t := cluster.PodAffinityTerm{Key: label(f[0]), Selector: cluster.Selector{Labels: r.ownLabels()}}
	var err error
	if weight != "" {
		if t.Weight, err = int32Of(weight); err != nil {
			return t, err
		}
	}
	named := false
	for _, word := range f[1:] {
		names, in := strings.CutPrefix(word, "in=")
		labels, where := strings.CutPrefix(word, "where=")
		switch {
		case in:
			t.Selector.Namespaces, named = list(names), true
		case where:
			t.Selector.NamespaceLabels, err = selector(labels)
			named = true
		default:
			err = selectLabels(&t.Selector, word)
		}
		if err != nil {
			return t, err
		}
	}
	if !named {
		t.Selector.Namespaces = []string{r.Namespace}
	}
	return t, nil
}

// ownLabels selects the pod's own labels.
func (r *podReader) ownLabels() cluster.Term {
	var t cluster.Term
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		t = append(t, constraint.Rule{Key: key, Operator: constraint.In, Values: []string{r.Labels[key]}})
	}
	return t
}
