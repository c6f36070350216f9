package pack_test

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/pack"
	"github.com/karve-dev/karve/engine/world"
)

// TestRatesBound: no plan that buys for all pods of some nodes costs less than they are
// worth, for any set of nodes.
func TestRatesBound(t *testing.T) {
	tight, bought := 0.0, 0
	for seed := range uint64(400) {
		w := enginetest.Populated(seed, 1+int(seed%40)).World()
		trial := w.Try()
		var hosts []*world.Host
		for _, h := range w.Hosts {
			hosts = append(hosts, h)
			trial.Shut(h) // nothing is free
		}
		rates := pack.Worth(w, hosts)
		r := rand.New(rand.NewPCG(seed, 9))
		for range 4 {
			mark := trial.Mark()
			var set []*world.Host
			for _, h := range hosts {
				if r.IntN(3) == 0 {
					set = append(set, h)
					trial.Vacate(h)
				}
			}
			d := pack.Sketch(trial.World(), 1<<62)
			if d.Unplaced() == 0 && d.Price() > 0 {
				price, worth := d.Plan().Price(), rates.Of(set...)
				if price < worth {
					t.Errorf("seed %d: pods of %d nodes are worth %s but are bought for at %s", seed, len(set), worth, price)
				}
				tight, bought = tight+worth.USD()/price.USD(), bought+1
			}
			trial.Back(mark)
		}
		trial.End()
	}
	if bought < 150 || tight/float64(bought) < 0.3 {
		t.Errorf("over %d plans rates are %.2f of the price: that bounds nothing", bought, tight/float64(bought))
	}
	t.Logf("%d plans, rates are %.2f of the price", bought, tight/float64(bought))
}

// BenchmarkRates finds the rates of a town and asks what each node is worth.
func BenchmarkRates(b *testing.B) {
	t := newTown(2000, 40000, 120, 50)
	w := t.b.World()
	var waste, price float64
	for b.Loop() {
		rates := pack.Worth(w, w.Hosts)
		waste, price = 0, 0
		for _, h := range w.Hosts {
			price += h.Price.USD()
			waste += (h.Price - rates.Of(h)).USD()
		}
	}
	b.ReportMetric(100*waste/price, "%waste")
}
