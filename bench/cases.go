package main

import (
	"fmt"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/world"
)

// item is one scenario of the run: a comparison of both sides where make is set, else
// a measurement of its own.
type item struct {
	name string
	make func() (*scenario.Scenario, error)
	// alone leaves upstream out, for the reason given.
	alone string
	note  string
}

// items lists the run in order.
func (c config) items() []item {
	var out []item
	for _, n := range c.sizes() {
		out = append(out, item{name: fmt.Sprintf("diverse %d", n), make: always(func() *scenario.Scenario { return scenario.Diverse(n) })})
	}
	return append(out, c.preferences()...)
}

func (c config) sizes() []int {
	if c.quick {
		return []int{500, 1000, 2000}
	}
	return []int{1000, 5000, 10000, 20000}
}

func (c config) preferences() []item {
	n := 4000
	if c.quick {
		n = 500
	}
	with := func(name string, s world.Settings) item {
		return item{name: fmt.Sprintf("preferences %d %s", n, name), make: always(func() *scenario.Scenario { return scenario.Preferences(n, s) })}
	}
	unlimited := with("respect unlimited", world.Settings{Preferences: world.Respect, Surplus: world.UnlimitedSurplus})
	unlimited.alone = "surplus without bound: upstream's row is that of respect"
	return []item{
		with("respect", world.Settings{Preferences: world.Respect, Surplus: 100}),
		unlimited,
		with("ignore", world.Settings{Preferences: world.Ignore}),
	}
}

func always(make func() *scenario.Scenario) func() (*scenario.Scenario, error) {
	return func() (*scenario.Scenario, error) { return make(), nil }
}
