// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Format writes a script that Parse reads back as an equal one, to record a failing seed. It
// covers what the language can express; empty rules and the like, which only hand-made scripts
// contain, are written as words that Parse rejects.
func Format(s *Script) string {
	f := &formatter{s: s}
	f.settings()
	for _, name := range slices.Sorted(maps.Keys(s.Namespaces)) {
		f.line("namespace", name, f.labels(s.Namespaces[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Quotas)) {
		f.line("quota", escape(name), []string{fmt.Sprint("left=", s.Quotas[name])})
	}
	for _, t := range s.Types {
		f.typ(t)
	}
	for _, p := range s.Pools {
		f.pool(p)
	}
	for _, d := range s.Daemons {
		words := amounts(d.Requests, quantity.Amounts{quantity.NamePods: 1}, "")
		words = append(words, requirements(d.Required, d.AnyOf)...)
		words = append(words, tolerations(d.Tolerations)...)
		f.line("daemon", d.Name, append(words, portWords(d.Ports)...))
	}
	for _, n := range s.Nodes {
		f.node(n)
	}
	f.pods()
	for _, owner := range slices.Sorted(maps.Keys(s.Owed)) {
		f.line("owed", owner, []string{fmt.Sprint("pods=", s.Owed[owner])})
	}
	return f.String()
}

type formatter struct {
	strings.Builder
	s *Script
}

func (f *formatter) line(word, name string, words []string) {
	fmt.Fprintln(f, strings.TrimSpace(strings.Join(append([]string{word, name}, words...), " ")))
}

func (f *formatter) settings() {
	var words []string
	s := f.s.Settings
	if s.Preferences != "" {
		words = append(words, "preferences="+string(s.Preferences))
	}
	switch {
	case s.PreferenceSurplusPermille == cluster.UnlimitedPreferenceSurplus:
		words = append(words, "surplus=unlimited")
	case s.PreferenceSurplusPermille != 0:
		words = append(words, fmt.Sprintf("surplus=%s%%", strconv.FormatFloat(float64(s.PreferenceSurplusPermille)/10, 'f', -1, 64)))
	}
	if s.RelaxMinValues {
		words = append(words, "relax-min-values")
	}
	if len(words) > 0 {
		f.line("settings", words[0], words[1:])
	}
}

// escape writes characters that would be read as punctuation as percent escapes.
func escape(text string) string {
	var w strings.Builder
	for _, b := range []byte(text) {
		if b <= ' ' || b >= 127 || strings.IndexByte("%:,|=~!@&#*", b) >= 0 {
			fmt.Fprintf(&w, "%%%02X", b)
			continue
		}
		w.WriteByte(b)
	}
	return w.String()
}

// key writes a label key, by its alias where it has one.
func key(k string) string {
	for _, a := range aliases {
		if a[1] == k {
			return a[0]
		}
	}
	return escape(k)
}

func values(vs []string) string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = escape(v)
	}
	return strings.Join(out, "|")
}

func (f *formatter) labels(labels map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, "label:"+key(k)+"="+escape(labels[k]))
	}
	return out
}

// amounts writes what differs from the base, which Parse assumes.
func amounts(a, base quantity.Amounts, prefix string) []string {
	var out []string
	for _, name := range slices.SortedFunc(maps.Keys(a), compareResources) {
		if n, ok := base[name]; ok && n == a[name] {
			continue
		}
		text := strconv.FormatInt(a[name], 10)
		word := prefix + name
		switch {
		case name == quantity.NameCPU && a[name]%1000 == 0:
			text = strconv.FormatInt(a[name]/1000, 10)
		case name == quantity.NameCPU:
			text += "m"
		case name == quantity.NameMemory:
			word, text = prefix+"mem", bytes(a[name])
		case name == quantity.NameStorage:
			word, text = prefix+"disk", bytes(a[name])
		case strings.HasPrefix(name, quantity.Attachable) && prefix == "":
			word = "attach:" + escape(strings.TrimPrefix(name, quantity.Attachable))
		case name == "nvidia.com/gpu":
			word = prefix + "gpu"
		}
		out = append(out, word+"="+text)
	}
	return out
}

func compareResources(a, b string) int {
	return cmp.Or(-cmp.Compare(resourceRank(a), resourceRank(b)), cmp.Compare(a, b))
}

func resourceRank(name string) int {
	return slices.Index([]string{quantity.NamePods, quantity.NameStorage, quantity.NameMemory, quantity.NameCPU}, name)
}

func bytes(n int64) string {
	for _, unit := range []struct {
		suffix string
		bytes  int64
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}} {
		if n != 0 && n%unit.bytes == 0 && n/unit.bytes < 1<<20 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

func quotaUses(ds []offering.QuotaUse) []string {
	var out []string
	for _, d := range ds {
		out = append(out, fmt.Sprintf("quota:%s=%d", escape(d.Quota), d.Amount))
	}
	return out
}

func (f *formatter) typ(t offering.InstanceType) {
	words := amounts(t.Capacity, quantity.Amounts{quantity.NamePods: 110}, "")
	words = append(words, amounts(t.Overhead, nil, "overhead-")...)
	if t.SustainedCPU != 0 {
		words = append(words, amounts(quantity.Amounts{quantity.NameCPU: t.SustainedCPU}, nil, "sustained-")...)
	}
	if len(t.NamedBy) > 0 {
		var names []string
		for _, k := range t.NamedBy {
			names = append(names, key(k))
		}
		words = append(words, "named-by="+strings.Join(names, "|"))
	}
	if t.Labels["kubernetes.io/arch"] == nil {
		words = append(words, "label:kubernetes.io/arch=")
	}
	for _, k := range slices.Sorted(maps.Keys(t.Labels)) {
		words = append(words, "label:"+key(k)+"="+values(t.Labels[k]))
	}
	f.line("type", t.Name, words)
	for _, o := range t.Offerings {
		f.offering(t.Name, o)
	}
}

func (f *formatter) offering(name string, o offering.Offering) {
	words := []string{"zone=" + escape(o.Zone), fmt.Sprintf("price=%dn", int64(o.Price))}
	if o.Extras != 0 {
		words = append(words, fmt.Sprintf("extras=%dn", int64(o.Extras)))
	}
	rest, labels := o.QuotaUses, maps.Clone(o.Labels)
	switch o.CapacityType {
	case offering.Spot:
		words = append(words, "spot")
	case offering.Reserved:
		if ids := labels[LabelReservation]; len(ids) == 1 && len(rest) > 0 {
			words, rest = append(words, "reservation="+ids[0]), rest[1:]
			delete(labels, LabelReservation)
		}
	}
	words = append(words, quotaUses(rest)...)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, "label:"+key(k)+"="+values(labels[k]))
	}
	if o.Fallback {
		words = append(words, "fallback")
	}
	if o.Unavailable != "" {
		words = append(words, "unavailable="+escape(o.Unavailable))
	}
	f.line("offering", name, words)
}

func taints(ts []cluster.Taint) []string {
	var out []string
	for _, t := range ts {
		out = append(out, fmt.Sprintf("taint:%s=%s:%s", escape(t.Key), escape(t.Value), t.Effect))
	}
	return out
}

func tolerations(ts []cluster.Toleration) []string {
	var out []string
	for _, t := range ts {
		value := escape(t.Value)
		if t.Operator != "Exists" && value == "" {
			value = "="
		}
		word := fmt.Sprintf("tolerate:%s=%s", escape(t.Key), value)
		if t.Effect != "" {
			word += ":" + string(t.Effect)
		}
		out = append(out, word)
	}
	return out
}

func ruleWord(r constraint.Rule) string {
	word := key(r.Key) + "=" + string(r.Operator)
	if r.MinValues > 0 {
		word += fmt.Sprintf(">=%d", r.MinValues)
	}
	if r.Values != nil {
		word += ":" + values(r.Values)
	}
	return word
}

func requirements(required cluster.Term, anyOf []cluster.Term) []string {
	var out []string
	for _, r := range required {
		out = append(out, "require:"+ruleWord(r))
	}
	return append(out, alternatives("or", anyOf)...)
}

func alternatives(word string, terms []cluster.Term) []string {
	var out []string
	for i, t := range terms {
		for _, r := range t {
			if len(t) == 1 {
				out = append(out, word+":"+ruleWord(r))
				continue
			}
			out = append(out, fmt.Sprintf("%s:%d:%s", word, i+1, ruleWord(r)))
		}
	}
	return out
}

func (f *formatter) pool(p cluster.NodePool) {
	var words []string
	if p.Weight != 0 {
		words = append(words, fmt.Sprint("weight=", p.Weight))
	}
	if p.Static {
		words = append(words, "static")
	}
	if p.FullCPU {
		words = append(words, "full-cpu")
	}
	words = append(words, amounts(p.Limits, nil, "limit:")...)
	words = append(words, f.labels(p.Labels)...)
	words = append(words, taints(p.Taints)...)
	words = append(words, requirements(p.Requirements, nil)...)
	if p.Blocked != "" {
		words = append(words, "blocked="+escape(p.BlockedDetail))
	}
	f.line("pool", p.Name, words)
}

func (f *formatter) node(n cluster.Node) {
	words := amounts(n.Allocatable, quantity.Amounts{quantity.NamePods: 110}, "")
	words = append(words, amounts(n.Capacity, n.Allocatable, "capacity:")...)
	for _, w := range []struct {
		on   bool
		word string
	}{{n.Pool != "", "pool=" + n.Pool}, {n.Name == "", "unregistered"}, {n.Name != "" && !n.Initialized, "uninitialized"}, {n.MarkedForDeletion, "leaving"}, {n.TakesNoPods, "unschedulable"}, {n.Price != 0, fmt.Sprintf("price=%dn", int64(n.Price))}} {
		if w.on {
			words = append(words, w.word)
		}
	}
	labels := maps.Clone(n.Labels)
	if labels[cluster.LabelNodePool] == n.Pool {
		delete(labels, cluster.LabelNodePool)
	}
	if labels[cluster.LabelHostname] == n.Name {
		delete(labels, cluster.LabelHostname)
	}
	words = append(append(words, f.labels(labels)...), taints(n.Taints)...)
	f.line("node", n.Key, append(words, quotaUses(n.QuotaUses)...))
}

// pods writes runs of pods that differ only in their number as one line.
func (f *formatter) pods() {
	pods := f.s.Pods
	for i := 0; i < len(pods); {
		words := f.podWords(pods[i], i)
		base, numbered := strings.CutSuffix(pods[i].Name, "-1")
		n := 1
		for numbered && i+n < len(pods) && pods[i+n].Name == fmt.Sprintf("%s-%d", base, n+1) && reflect.DeepEqual(words, f.podWords(pods[i+n], i+n)) {
			n++
		}
		if n > 1 {
			f.line("pods", base, append([]string{fmt.Sprint("x", n)}, words...))
		} else {
			f.line("pod", pods[i].Name, words)
		}
		i += n
	}
}

func (f *formatter) podWords(p cluster.Pod, index int) []string {
	words := amounts(p.Requests, quantity.Amounts{quantity.NamePods: 1}, "")
	for _, w := range []struct {
		on   bool
		word string
	}{
		{p.Namespace != "default", "namespace=" + p.Namespace}, {p.UID != p.Name, "uid=" + p.UID},
		{!p.Created.Equal(time.Unix(int64(index), 0)), fmt.Sprint("created=", p.Created.Unix())},
		{p.Priority != 0, fmt.Sprint("priority=", p.Priority)},
		{p.Node != "", "on=" + p.Node}, {p.DaemonSet != "", "daemon-of=" + p.DaemonSet}, {p.Node != "" && !p.ReschedulableNow && p.DaemonSet == "", "not-movable"},
		{p.Terminating, "terminating"}, {p.Virtual, "virtual"}, {p.Owner != "", "owner=" + p.Owner}, {p.Refused != "", "refused=" + escape(p.RefusedDetail)},
	} {
		if w.on {
			words = append(words, w.word)
		}
	}
	words = append(words, f.labels(p.Labels)...)
	words = append(append(words, requirements(p.Required, p.AnyOf)...), tolerations(p.Tolerations)...)
	for i, pref := range p.Preferred {
		if len(pref.Term) == 1 {
			words = append(words, fmt.Sprintf("prefer~%d:%s", pref.Weight, ruleWord(pref.Term[0])))
			continue
		}
		for _, r := range pref.Term {
			words = append(words, fmt.Sprintf("prefer~%d:%d:%s", pref.Weight, i+1, ruleWord(r)))
		}
	}
	for _, sp := range p.Spreads {
		words = append(words, spreadWord(sp))
	}
	for _, t := range p.Affinity {
		words = append(words, f.termWord("affinity", t, p.Namespace))
	}
	for _, t := range p.AntiAffinity {
		words = append(words, f.termWord("anti-affinity", t, p.Namespace))
	}
	words = append(words, portWords(p.Ports)...)
	return append(words, volumeWords(p)...)
}

func portWords(ports []cluster.Port) []string {
	var words []string
	for _, port := range ports {
		address := fmt.Sprint(port.Port)
		if port.IP != "" {
			address = net.JoinHostPort(port.IP, address)
		}
		words = append(words, "port="+port.Protocol+"/"+address)
	}
	return words
}

func volumeWords(p cluster.Pod) []string {
	var words []string
	for _, v := range p.Volumes {
		word := "volume=" + escape(v.ID)
		exclusive := slices.Contains(p.ExclusiveClaims, claimOf(p.Namespace, v))
		if v.Driver != "" || v.Shared || exclusive {
			word += ":" + escape(v.Driver)
		}
		if v.Shared {
			word += ":shared"
		}
		if exclusive {
			word += ":exclusive"
		}
		words = append(append(words, word), alternatives("volume-in", v.AnyOf)...)
	}
	return words
}

func spreadWord(sp cluster.TopologySpreadConstraint) string {
	word := fmt.Sprintf("spread=%s:%d", key(sp.Key), sp.MaxSkew)
	for _, w := range []struct {
		on   bool
		word string
	}{{sp.Soft, ":soft"}, {sp.MinDomains != 0, fmt.Sprint(":min=", sp.MinDomains)}, {sp.IgnoreAffinity, ":ignore-affinity"}, {sp.HonorTaints, ":honor-taints"}} {
		if w.on {
			word += w.word
		}
	}
	return word + ":" + selectorWord(sp.Selector)
}

func (f *formatter) termWord(word string, t cluster.PodAffinityTerm, namespace string) string {
	if t.Weight != 0 {
		word += fmt.Sprint("~", t.Weight)
	}
	word += "=" + key(t.Key) + ":" + selectorWord(t.Selector)
	if !slices.Equal(t.Selector.Namespaces, []string{namespace}) || t.Selector.NamespaceLabels != nil {
		if len(t.Selector.Namespaces) > 0 {
			word += ":in=" + values(t.Selector.Namespaces)
		}
		if t.Selector.NamespaceLabels != nil {
			word += ":where=" + termSelector(t.Selector.NamespaceLabels)
		}
	}
	return word
}

func selectorWord(s cluster.Selector) string {
	if s.Nothing {
		return "nothing"
	}
	return termSelector(s.Labels)
}

func termSelector(t cluster.Term) string {
	if len(t) == 0 {
		return "*"
	}
	var parts []string
	for _, r := range t {
		switch r.Operator {
		case constraint.In:
			parts = append(parts, key(r.Key)+"="+values(r.Values))
		case constraint.NotIn:
			parts = append(parts, key(r.Key)+"!="+values(r.Values))
		case constraint.DoesNotExist:
			parts = append(parts, "!"+key(r.Key))
		default:
			parts = append(parts, key(r.Key))
		}
	}
	return strings.Join(parts, ",")
}
