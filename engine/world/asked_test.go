package world_test

import (
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/world"
)

// Hosts are alike unless pods ask for a label, or neighbours must share it, in which they differ.
func TestHostsAreAlikeAsFarAsPodsAsk(t *testing.T) {
	b := world.NewBuilder()
	node := func(name, zone, disk, colour string) {
		b.SetNode(world.Node{Key: name, Name: name, Initialized: true,
			Labels: map[string]string{world.LabelHostname: name, world.LabelZone: zone, "disk": disk, "colour": colour}})
	}
	node("a", "z1", "ssd", "red")
	node("b", "z1", "ssd", "blue")
	node("c", "z2", "ssd", "red")
	node("d", "z1", "hdd", "red")
	self := world.Selector{Namespaces: []string{"default"}}
	b.SetPod(world.Pod{Ref: world.Ref{Namespace: "default", Name: "p", UID: "p"},
		Required:     []constraint.Rule{{Key: "disk", Operator: constraint.In, Values: []string{"ssd"}}},
		Spreads:      []world.Spread{{Key: world.LabelZone, MaxSkew: 1, Select: self}, {Key: "colour", MaxSkew: 1, Select: self, Soft: true}},
		AntiAffinity: []world.PodTerm{{Key: world.LabelHostname, Select: self}}})
	w := b.World()
	var names []string
	for _, k := range w.Asked() {
		names = append(names, k.Name)
	}
	if want := []string{"disk", world.LabelZone}; !slices.Equal(names, want) {
		t.Errorf("pods ask for %v, want %v", names, want)
	}
	look := func(name string) string { return w.Host(name).Likeness(w.Asked()) }
	if look("a") != look("b") {
		t.Error("a and b differ only in what nobody asks for")
	}
	if look("a") == look("c") || look("a") == look("d") {
		t.Error("c is in another zone than a, d has another disk")
	}
}
