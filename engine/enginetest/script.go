// SPDX-License-Identifier: Apache-2.0

// Package enginetest holds what the engine's tests share: a small language for snapshots and
// plans, seeded random scripts, the invariants of every plan, and an oracle that tries all
// placements.
//
// A script is lines of `word name key=value…`; each word is documented at its function. Unknown
// words and keys are errors, so that a typo fails a test instead of weakening it. A space or
// one of % : , | = ~ ! @ & / inside a word is written as a percent escape where it would be
// read as punctuation. The label keys zone, host, type and capacity-type are aliases of the
// long ones.
package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// NodeClass is the node class of every scripted pool.
const NodeClass = "default"

// Script collects the lines that describe a snapshot.
type Script struct {
	Types      []offering.InstanceType
	Quotas     map[string]int64 // what is left of each quota
	Pools      []cluster.NodePool
	Nodes      []cluster.Node
	Pods       []cluster.Pod
	Daemons    []cluster.DaemonSet
	Namespaces map[string]map[string]string // labels by name
	Owed       map[string]int               // pods to come, by owner
	Settings   cluster.Settings
}

// Parse reads a script. Empty lines and lines that begin with # are skipped.
func Parse(text string) (*Script, error) {
	s := &Script{Quotas: map[string]int64{}, Namespaces: map[string]map[string]string{}, Owed: map[string]int{}}
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := s.line(fields); err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
	}
	return s, nil
}

// Snapshot builds a new snapshot of the script.
func (s *Script) Snapshot() *cluster.Snapshot { return s.Builder().Snapshot() }

// Builder returns a Builder with everything in the script.
func (s *Script) Builder() *cluster.Builder {
	b := cluster.NewBuilder()
	b.SetSettings(s.Settings)
	for name, labels := range s.Namespaces {
		b.SetNamespace(name, labels)
	}
	b.SetCatalog(NodeClass, s.Types, s.Quotas)
	for _, p := range s.Pools {
		b.SetPool(p)
	}
	for _, d := range s.Daemons {
		b.SetDaemon(d)
	}
	for _, n := range s.Nodes {
		b.SetNode(n)
	}
	for _, p := range s.Pods {
		b.SetPod(p)
	}
	for owner, pods := range s.Owed {
		b.SetOwed(owner, pods)
	}
	return b
}

func (s *Script) line(f []string) error {
	words := map[string]func(string, []string) error{
		"type": s.typ, "offering": s.offering, "quota": s.quota, "pool": s.pool, "node": s.node, "pods": s.pods, "pod": s.pod,
		"daemon": s.daemon, "namespace": s.namespace, "settings": s.settings, "owed": s.owed,
	}
	read, ok := words[f[0]]
	if !ok {
		return fmt.Errorf("%q is not one of %s", f[0], strings.Join(slices.Sorted(maps.Keys(words)), ", "))
	}
	if len(f) < 2 {
		return fmt.Errorf("%s needs a name", f[0])
	}
	return read(f[1], f[2:])
}

// settings: settings [preferences=Respect|Ignore] [surplus=10%|unlimited] [relax-min-values]
func (s *Script) settings(first string, args []string) error {
	for _, arg := range append([]string{first}, args...) {
		key, value, _ := strings.Cut(arg, "=")
		switch {
		case key == "preferences" && (value == string(cluster.Respect) || value == string(cluster.Ignore)):
			s.Settings.Preferences = cluster.PreferencePolicy(value)
		case key == "surplus" && value == "unlimited":
			s.Settings.PreferenceSurplusPermille = cluster.UnlimitedPreferenceSurplus
		case key == "surplus":
			percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
			if err != nil || !(percent >= 0 && percent < 1e6) {
				return fmt.Errorf("%q is not a surplus: say 10%% or unlimited", value)
			}
			s.Settings.PreferenceSurplusPermille = int(percent*10 + 0.5)
		case arg == "relax-min-values":
			s.Settings.RelaxMinValues = true
		default:
			return fmt.Errorf("settings do not take %q", arg)
		}
	}
	return nil
}

// namespace: namespace team-a [label:key=value]
func (s *Script) namespace(name string, args []string) error {
	labels := map[string]string{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, rest, _ := strings.Cut(key, ":")
		if kind != "label" {
			return fmt.Errorf("namespace takes label:key=value, not %q", arg)
		}
		labels[label(rest)] = plain(value)
	}
	s.Namespaces[name] = labels
	return nil
}

// owed: owed web pods=40, where web is the owner of pods
func (s *Script) owed(owner string, args []string) error {
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		n, err := strconv.Atoi(value)
		if key != "pods" || err != nil || n < 0 {
			return fmt.Errorf("owed takes pods=40, not %q", arg)
		}
		s.Owed[owner] = n
	}
	return nil
}

// typ: type D4 cpu=4 mem=16Gi [price=0.20] [spot=0.04] [reserved=0.01/id/3] [extras=0.03]
// [zones=1,2] [overhead-cpu=100m] [sustained-cpu=800m] [named-by=key|key] [attach:driver=4] [label:key=a|b] [quota:family=4] [unavailable=words]
// [any other resource=amount]
//
// A reservation of three instances is a quota of three. A type without any price gets its
// offerings from the offering lines that follow it; an empty label removes one.
func (s *Script) typ(name string, args []string) error {
	t := offering.InstanceType{Name: name, Labels: map[string][]string{"kubernetes.io/arch": {"amd64"}}, Capacity: quantity.Amounts{quantity.NamePods: 110}, Overhead: quantity.Amounts{}}
	zones := []string{"1"}
	prices := map[string]string{}
	var rest []string
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, after, _ := strings.Cut(key, ":")
		var err error
		switch {
		case key == "price":
			prices[offering.OnDemand] = value
		case key == "spot" || key == "reserved":
			prices[key] = value
		case key == "zones":
			zones = strings.Split(value, ",")
		case key == "sustained-cpu":
			sustained := quantity.Amounts{}
			err = amount(sustained, quantity.NameCPU, value)
			t.SustainedCPU = sustained[quantity.NameCPU]
		case key == "named-by":
			for k := range strings.SplitSeq(value, "|") {
				t.NamedBy = append(t.NamedBy, label(k))
			}
		case key == "unavailable" || key == "extras" || kind == "quota":
			rest = append(rest, arg)
		case kind == "label":
			t.Labels[label(after)] = list(value)
			if value == "" {
				delete(t.Labels, label(after))
			}
		case kind == "attach":
			err = amount(t.Capacity, quantity.Attachable+plain(after), value)
		case strings.HasPrefix(key, "overhead-"):
			err = amount(t.Overhead, strings.TrimPrefix(key, "overhead-"), value)
		default:
			err = amount(t.Capacity, key, value)
		}
		if err != nil {
			return err
		}
	}
	s.Types = append(s.Types, t)
	return s.offers(name, zones, prices, rest)
}

// offers adds offerings of a type in every zone at every price of its line.
func (s *Script) offers(name string, zones []string, prices map[string]string, rest []string) error {
	for _, zone := range zones {
		for _, ct := range []string{offering.OnDemand, offering.Spot, offering.Reserved} {
			price, ok := prices[ct]
			if !ok {
				continue
			}
			args := append([]string{"zone=" + zone, "price=" + price}, rest...)
			if ct == offering.Reserved {
				f := strings.Split(price, "/")
				if len(f) != 3 {
					return fmt.Errorf("reserved takes price/id/count, not %q", price)
				}
				if err := s.quota(reservation(f[1]), []string{"left=" + f[2]}); err != nil {
					return err
				}
				args[1] = "price=" + f[0]
				args = append(args, "reservation="+f[1])
			}
			if ct == offering.Spot {
				args = append(args, ct)
			}
			if err := s.offering(name, args); err != nil {
				return err
			}
		}
	}
	return nil
}

// LabelReservation is the label of scripted reserved offerings.
const LabelReservation = "karve.dev/reservation"

// reservation is the name of the quota that counts the instances left in a reservation.
func reservation(id string) string { return "reservation/" + id }

// offering: offering D4 zone=1 price=0.20 [extras=0.03] [spot] [reservation=id] [fallback]
// [quota:family=4] [label:key=a|b] [unavailable=words]
func (s *Script) offering(name string, args []string) error {
	i := slices.IndexFunc(s.Types, func(t offering.InstanceType) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("no type %s goes before", name)
	}
	o := offering.Offering{CapacityType: offering.OnDemand}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, rest, _ := strings.Cut(key, ":")
		var err error
		switch {
		case key == "zone":
			o.Zone = plain(value)
		case key == "price":
			o.Price, err = price(value)
		case key == "extras":
			o.Extras, err = price(value)
		case arg == "spot":
			o.CapacityType = offering.Spot
		case key == "reservation":
			o.CapacityType = offering.Reserved
			o.QuotaUses = append(o.QuotaUses, offering.QuotaUse{Quota: reservation(value), Amount: 1})
			labelOffering(&o, LabelReservation, value)
		case arg == "fallback":
			o.Fallback = true
		case kind == "quota":
			var n int64
			n, err = strconv.ParseInt(value, 10, 64)
			o.QuotaUses = append(o.QuotaUses, offering.QuotaUse{Quota: plain(rest), Amount: n})
		case kind == "label":
			labelOffering(&o, label(rest), list(value)...)
		case key == "unavailable":
			o.Unavailable = plain(value)
		default:
			err = fmt.Errorf("offering does not take %q", arg)
		}
		if err != nil {
			return err
		}
	}
	s.Types[i].Offerings = append(s.Types[i].Offerings, o)
	return nil
}

func labelOffering(o *offering.Offering, key string, values ...string) {
	if o.Labels == nil {
		o.Labels = map[string][]string{}
	}
	o.Labels[key] = values
}

func price(text string) (offering.Price, error) {
	if nano, ok := strings.CutSuffix(text, "n"); ok { // exact, as Format writes it
		n, err := strconv.ParseInt(nano, 10, 64)
		return offering.Price(n), err
	}
	usd, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, err
	}
	return offering.USDPerHour(usd)
}

// quota: quota family left=10
func (s *Script) quota(name string, args []string) error {
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		if key != "left" {
			return fmt.Errorf("quota takes left=N, not %q", arg)
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return err
		}
		s.Quotas[name] = n
	}
	return nil
}

// pool: pool web [weight=10] [limit:cpu=8] [taint:key=value:Effect] [label:key=value]
// [require:key=Op:a|b] [require:key=Op>=2:a|b] [min-values:key=minValues] [static] [blocked=words]
func (s *Script) pool(name string, args []string) error {
	p := cluster.NodePool{Name: name, NodeClass: NodeClass, Labels: map[string]string{}}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, rest, _ := strings.Cut(key, ":")
		var err error
		switch {
		case kind == "weight":
			p.Weight, err = int32Of(value)
		case kind == "limit":
			if p.Limits == nil {
				p.Limits = quantity.Amounts{}
			}
			err = amount(p.Limits, rest, value)
		case kind == "taint":
			p.Taints = append(p.Taints, taint(rest, value))
		case kind == "label":
			p.Labels[label(rest)] = plain(value)
		case kind == "require":
			p.Requirements = append(p.Requirements, rule(rest, value))
		case kind == "min-values":
			var n int
			n, err = strconv.Atoi(value)
			p.Requirements = append(p.Requirements, constraint.Rule{Key: label(rest), Operator: constraint.Exists, MinValues: n})
		case arg == "static":
			p.Static = true
		case arg == "full-cpu":
			p.FullCPU = true
		case kind == "blocked":
			p.Blocked, p.BlockedDetail = reason.NodePoolNotReady, plain(value)
		default:
			err = fmt.Errorf("pool does not take %q", arg)
		}
		if err != nil {
			return err
		}
	}
	s.Pools = append(s.Pools, p)
	return nil
}

// node: node n1 [type=D4] cpu=4 mem=16Gi [pool=web] [zone=1] [label:key=value]
// [taint:key=value:Effect] [attach:driver=4] [price=0.20] [quota:family=4]
// [capacity:resource=amount] [uninitialized] [leaving] [unschedulable] [unregistered] [any other
// resource=amount]
//
// A node with a type has the capacity, price, zone and capacity type of its first offering, as
// far as no later word says something else.
func (s *Script) node(name string, args []string) error {
	n := cluster.Node{Key: name, Name: name, Initialized: true, Labels: map[string]string{cluster.LabelHostname: name}, Allocatable: quantity.Amounts{quantity.NamePods: 110}}
	capacity := quantity.Amounts{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, rest, _ := strings.Cut(key, ":")
		var err error
		switch {
		case kind == "pool":
			n.Pool, n.HasNodeClaim = value, true
			n.Labels[cluster.LabelNodePool] = value
		case key == "type":
			err = s.launched(&n, value)
		case key == "zone":
			n.Labels[cluster.LabelZone] = plain(value)
		case kind == "label":
			n.Labels[label(rest)] = plain(value)
		case kind == "taint":
			n.Taints = append(n.Taints, taint(rest, value))
		case kind == "attach":
			err = amount(n.Allocatable, quantity.Attachable+plain(rest), value)
		case kind == "capacity":
			err = amount(capacity, rest, value)
		case kind == "quota":
			var count int64
			count, err = strconv.ParseInt(value, 10, 64)
			n.QuotaUses = append(n.QuotaUses, offering.QuotaUse{Quota: plain(rest), Amount: count})
		case key == "price":
			n.Price, err = price(value)
		case arg == "uninitialized":
			n.Initialized = false
		case arg == "leaving":
			n.MarkedForDeletion = true
		case arg == "unschedulable":
			n.TakesNoPods = true
		case arg == "unregistered":
			n.Name, n.Initialized = "", false
			delete(n.Labels, cluster.LabelHostname)
		default:
			err = amount(n.Allocatable, key, value)
		}
		if err != nil {
			return err
		}
	}
	n.Capacity = n.Allocatable
	if len(capacity) > 0 {
		n.Capacity = maps.Clone(n.Allocatable)
		maps.Copy(n.Capacity, capacity)
	}
	s.Nodes = append(s.Nodes, n)
	return nil
}

// launched makes the node one of the type's first offering: capacity, price and labels.
func (s *Script) launched(n *cluster.Node, name string) error {
	i := slices.IndexFunc(s.Types, func(t offering.InstanceType) bool { return t.Name == name })
	if i < 0 || len(s.Types[i].Offerings) == 0 {
		return fmt.Errorf("no type %s with an offering goes before", name)
	}
	t, o := &s.Types[i], &s.Types[i].Offerings[0]
	n.Allocatable, n.Price = t.Capacity.Sub(t.Overhead), o.Price
	n.Labels[cluster.LabelInstanceType], n.Labels[cluster.LabelZone], n.Labels[cluster.LabelCapacityType] = name, o.Zone, o.CapacityType
	return nil
}

// pods: pods web x10 …: like pod, several times; a # in a volume's name becomes the
// pod's number.
func (s *Script) pods(name string, args []string) error {
	count := 1
	if len(args) > 0 && strings.HasPrefix(args[0], "x") && !strings.Contains(args[0], "=") {
		n, err := strconv.Atoi(args[0][1:])
		if err != nil {
			return err
		}
		count, args = n, args[1:]
	}
	for i := range count {
		own := slices.Clone(args)
		for j, arg := range own {
			if strings.HasPrefix(arg, "volume=") {
				own[j] = strings.ReplaceAll(arg, "#", strconv.Itoa(i+1))
			}
		}
		if err := s.pod(fmt.Sprintf("%s-%d", name, i+1), own); err != nil {
			return err
		}
	}
	return nil
}

// daemon: daemon agent cpu=100m mem=128Mi [require:key=Op:a|b] [or:1:key=Op:a|b]
// [tolerate:key=value:Effect] [port=TCP/8080]
func (s *Script) daemon(name string, args []string) error {
	d := cluster.DaemonSet{PodRef: cluster.PodRef{Name: name, UID: name}, Requests: quantity.Amounts{quantity.NamePods: 1}}
	terms := grouped{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, rest, _ := strings.Cut(key, ":")
		switch kind {
		case "require":
			d.Required = append(d.Required, rule(rest, value))
		case "or":
			d.AnyOf = terms.add(d.AnyOf, rest, value)
		case "tolerate":
			d.Tolerations = append(d.Tolerations, toleration(rest, value))
		case "port":
			p, err := port(value)
			if err != nil {
				return err
			}
			d.Ports = append(d.Ports, p)
		default:
			if err := amount(d.Requests, key, value); err != nil {
				return err
			}
		}
	}
	s.Daemons = append(s.Daemons, d)
	return nil
}
