// Package enginetest holds what the engine's tests share: a small language for
// worlds and plans, seeded random worlds, and the invariants every plan keeps.
//
// A script is lines of `word name key=value…`; docs of each word are at its
// function below. It refuses what it does not know, so a typo fails a test
// instead of weakening it.
package enginetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/world"
)

// Class is the node class that every scripted pool buys from.
const Class = "default"

// Script collects the lines of a world.
type Script struct {
	Types   []offer.Type
	Budgets map[string]int64
	Pools   []world.Pool
	Nodes   []world.Node
	Pods    []world.Pod
	Daemons []world.Daemon
}

// Parse reads a script. Empty lines and lines that begin with # are skipped.
func Parse(text string) (*Script, error) {
	s := &Script{Budgets: map[string]int64{}}
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

// World builds the scripted World from scratch.
func (s *Script) World() *world.World { return s.Builder().World() }

// Builder returns a Builder that was told everything in the script.
func (s *Script) Builder() *world.Builder {
	b := world.NewBuilder()
	b.SetCatalog(Class, s.Types, s.Budgets)
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
	return b
}

func (s *Script) line(f []string) error {
	words := map[string]func(string, []string) error{
		"type": s.typ, "budget": s.budget, "pool": s.pool, "node": s.node, "pods": s.pods, "daemon": s.daemon,
	}
	read, ok := words[f[0]]
	if !ok {
		return fmt.Errorf("%q is not one of type, budget, pool, node, pods, daemon", f[0])
	}
	if len(f) < 2 {
		return fmt.Errorf("%s needs a name", f[0])
	}
	return read(f[1], f[2:])
}

// typ: type D4 cpu=4 mem=16Gi price=0.20 [spot=0.04] [zones=1,2] [overhead-cpu=100m]
// [label:key=a|b] [draw:family=4] [gone=words] [any other resource=amount]
func (s *Script) typ(name string, args []string) error {
	t := offer.Type{Name: name, Labels: map[string][]string{"kubernetes.io/arch": {"amd64"}}, Capacity: quantity.Amounts{quantity.NamePods: 110}, Overhead: quantity.Amounts{}}
	zones := []string{"1"}
	prices := map[string]string{}
	var draws []offer.Draw
	gone := ""
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch {
		case key == "price":
			prices[offer.OnDemand] = value
		case key == "spot":
			prices[offer.Spot] = value
		case key == "zones":
			zones = strings.Split(value, ",")
		case key == "gone":
			gone = value
		case strings.HasPrefix(key, "label:"):
			t.Labels[strings.TrimPrefix(key, "label:")] = strings.Split(value, "|")
		case strings.HasPrefix(key, "draw:"):
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return err
			}
			draws = append(draws, offer.Draw{Budget: strings.TrimPrefix(key, "draw:"), Amount: n})
		case strings.HasPrefix(key, "overhead-"):
			if err := amount(t.Overhead, strings.TrimPrefix(key, "overhead-"), value); err != nil {
				return err
			}
		default:
			if err := amount(t.Capacity, key, value); err != nil {
				return err
			}
		}
	}
	for _, zone := range zones {
		for _, ct := range []string{offer.OnDemand, offer.Spot} {
			text, ok := prices[ct]
			if !ok {
				continue
			}
			usd, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			price, err := offer.USDPerHour(usd)
			if err != nil {
				return err
			}
			t.Offers = append(t.Offers, offer.Offer{Zone: zone, CapacityType: ct, Price: price, Draws: draws, Unavailable: gone})
		}
	}
	s.Types = append(s.Types, t)
	return nil
}

// budget: budget family left=10
func (s *Script) budget(name string, args []string) error {
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		if key != "left" {
			return fmt.Errorf("budget takes left=N, not %q", arg)
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return err
		}
		s.Budgets[name] = n
	}
	return nil
}

// pool: pool web [weight=10] [limit:cpu=8] [taint:key=value:Effect] [label:key=value]
// [need:key=Op:a|b] [variety:key=minValues] [blocked=words]
func (s *Script) pool(name string, args []string) error {
	p := world.Pool{Name: name, Class: Class, Labels: map[string]string{}}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, rest, _ := strings.Cut(key, ":")
		switch kind {
		case "weight":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			p.Weight = int32(n)
		case "limit":
			if p.Limits == nil {
				p.Limits = quantity.Amounts{}
			}
			if err := amount(p.Limits, rest, value); err != nil {
				return err
			}
		case "taint":
			p.Taints = append(p.Taints, taint(rest, value))
		case "label":
			p.Labels[rest] = value
		case "need":
			p.Requirements = append(p.Requirements, rule(rest, value))
		case "variety":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			p.Requirements = append(p.Requirements, constraint.Rule{Key: rest, Operator: constraint.Exists, MinValues: n})
		case "blocked":
			p.Blocked, p.BlockedDetail = reason.PoolNotReady, value
		default:
			return fmt.Errorf("pool does not take %q", arg)
		}
	}
	s.Pools = append(s.Pools, p)
	return nil
}

// node: node n1 cpu=4 mem=16Gi [pool=web] [label:key=value] [taint:key=value:Effect]
// [coming] [leaving] [any other resource=amount]
func (s *Script) node(name string, args []string) error {
	n := world.Node{Key: name, Name: name, Initialized: true, Labels: map[string]string{world.LabelHostname: name}, Allocatable: quantity.Amounts{quantity.NamePods: 110}}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, rest, _ := strings.Cut(key, ":")
		switch kind {
		case "pool":
			n.Pool, n.Claim = value, true
			n.Labels[world.LabelPool] = value
		case "label":
			n.Labels[rest] = value
		case "taint":
			n.Taints = append(n.Taints, taint(rest, value))
		case "coming":
			n.Initialized = false
		case "leaving":
			n.Leaving = true
		default:
			if err := amount(n.Allocatable, key, value); err != nil {
				return err
			}
		}
	}
	n.Capacity = n.Allocatable
	s.Nodes = append(s.Nodes, n)
	return nil
}

// pods: pods web x10 cpu=500m mem=1Gi [need:key=Op:a|b] [or:1:key=Op:a|b]
// [tolerate:key=value:Effect] [priority=5] [on=node] [refused=words]
func (s *Script) pods(name string, args []string) error {
	count := 1
	p := world.Pod{Requests: quantity.Amounts{quantity.NamePods: 1}}
	terms := map[string]int{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, rest, _ := strings.Cut(key, ":")
		switch {
		case strings.HasPrefix(arg, "x") && value == "":
			n, err := strconv.Atoi(arg[1:])
			if err != nil {
				return err
			}
			count = n
		case kind == "need":
			p.Required = append(p.Required, rule(rest, value))
		case kind == "or":
			term, label, _ := strings.Cut(rest, ":")
			if _, ok := terms[term]; !ok {
				terms[term] = len(p.AnyOf)
				p.AnyOf = append(p.AnyOf, nil)
			}
			p.AnyOf[terms[term]] = append(p.AnyOf[terms[term]], rule(label, value))
		case kind == "tolerate":
			p.Tolerations = append(p.Tolerations, toleration(rest, value))
		case kind == "priority":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			p.Priority = int32(n)
		case kind == "on":
			p.Node, p.Movable = value, true
		case kind == "refused":
			p.Refused, p.RefusedDetail = reason.Volumes, value
		default:
			if err := amount(p.Requests, key, value); err != nil {
				return err
			}
		}
	}
	for i := range count {
		pod := p
		pod.Ref = world.Ref{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i+1), UID: fmt.Sprintf("%s-%d", name, i+1)}
		pod.Created = time.Unix(int64(len(s.Pods)), 0)
		s.Pods = append(s.Pods, pod)
	}
	return nil
}

// daemon: daemon agent cpu=100m mem=128Mi [need:key=Op:a|b] [tolerate:key=value:Effect]
func (s *Script) daemon(name string, args []string) error {
	d := world.Daemon{Ref: world.Ref{Name: name, UID: name}, Requests: quantity.Amounts{quantity.NamePods: 1}}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		kind, rest, _ := strings.Cut(key, ":")
		switch kind {
		case "need":
			d.Required = append(d.Required, rule(rest, value))
		case "tolerate":
			d.Tolerations = append(d.Tolerations, toleration(rest, value))
		default:
			if err := amount(d.Requests, key, value); err != nil {
				return err
			}
		}
	}
	s.Daemons = append(s.Daemons, d)
	return nil
}

func taint(key, value string) world.Taint {
	v, effect, _ := strings.Cut(value, ":")
	return world.Taint{Key: key, Value: v, Effect: world.Effect(effect)}
}

func toleration(key, value string) world.Toleration {
	v, effect, _ := strings.Cut(value, ":")
	t := world.Toleration{Key: key, Operator: "Equal", Value: v, Effect: world.Effect(effect)}
	if v == "" {
		t.Operator = "Exists"
	}
	return t
}

func rule(key, value string) constraint.Rule {
	op, list, _ := strings.Cut(value, ":")
	r := constraint.Rule{Key: key, Operator: constraint.Operator(op)}
	if list != "" {
		r.Values = strings.Split(list, "|")
	}
	return r
}

// amount reads cpu=500m, mem=16Gi, disk=100Gi, gpu=1 and any other resource=N.
func amount(into quantity.Amounts, key, text string) error {
	name := key
	if long, ok := map[string]string{"mem": quantity.NameMemory, "disk": quantity.NameStorage, "gpu": "nvidia.com/gpu"}[key]; ok {
		name = long
	}
	scale := int64(1)
	if name == quantity.NameCPU {
		scale = 1000
		if strings.HasSuffix(text, "m") {
			scale, text = 1, strings.TrimSuffix(text, "m")
		}
	}
	for suffix, n := range map[string]int64{"Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40} {
		if strings.HasSuffix(text, suffix) {
			scale, text = n, strings.TrimSuffix(text, suffix)
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%s is not an amount of %s", text, key)
	}
	into[name] = int64(f * float64(scale))
	return nil
}
