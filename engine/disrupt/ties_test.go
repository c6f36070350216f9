// SPDX-License-Identifier: Apache-2.0

package disrupt_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/disrupt/disrupttest"
	"github.com/karve-dev/karve/engine/enginetest"
)

// TestMovesBesideEachOther: in each of these clusters a plan once had a move that removed a pod
// or node that another move needed.
func TestMovesBesideEachOther(t *testing.T) {
	for _, tc := range []struct {
		name, script, want string
	}{
		// Rule CONSOLIDATION-6: c's pod moves to zone 3, which has two pods, as zone 2 has
		// three: the pods of e must not move there, too.
		{"who is counted elsewhere stays there", `
pool p
node a label:zone=3
node b label:zone=3
node c pool=p
node d label:zone=2
node e pool=p label:zone=2
pod web-a on=a
pod web-b on=b
pod web-d on=d
pods web-e x2 on=e
pod even on=c spread=zone:1:min=1:ignore-affinity:app!=b
`, "Underutilized c ->a:1 0.0000\ne stays: PriceUnknown\n"},
		// Rule CONSOLIDATION-6: likewise b's pod joins three pods of team red, as team blue has
		// two, of which a's pod must not join them.
		{"who is counted in another team stays there", `
pool p
node a pool=p label:team=blue
node b pool=p price=1376000000n
node c label:team=red label:zone=2
node d label:team=blue
pod free on=a
pod other on=d
pod even on=b spread=team:2:min=1:app!=c volume=vol1::shared volume-in:zone=In:2
pods even x3 on=c
`, "Underutilized b ->c:1 1.3760\na stays: PriceUnknown\n"},
		// Rule CONSOLIDATION-6: b's pod moves to an arm64 node, as the pod of its affinity is
		// on another one.
		{"who is wanted nearby stays near", `
type T
offering T zone=2
pool p
node arm label:arch=arm64
node a pool=p price=320000000n label:arch=arm64
node b pool=p
pod follower on=b affinity=arch:app=b
pod leader on=a label:app=b volume=vol0:disk.csi.example.com:shared volume-in:zone=In:2
`, "Underutilized b ->arm:1 0.0000\na stays: NeededByOtherMove\n"},
		// Rule CONSOLIDATION-6: b's pod has affinity to c's, and c's must not follow b's at the
		// same time: both would wait.
		{"two that follow each other", `
pool p
node a label:arch=arm64
node b pool=p price=320000000n label:arch=arm64
node c pool=p price=320000000n label:arch=arm64
node d label:arch=amd64
pod like-b on=b label:app=c require:arch=In:arm64 affinity=arch:app=c
pod like-c on=c label:app=c require:arch=In:arm64 affinity=arch:app=c
pod like-d on=d label:app=c
`, "Underutilized b ->a:1 0.3200\nc stays: NeededByOtherMove\n"},
		// Rule CONSOLIDATION-6: the launch of the first move has the team and the version that
		// the pods ask for: pods on it count.
		{"pods on machines to be bought count", `
type T0 cpu=8 label:version=2
offering T0
pool free limit:cpu=27 require:team=Exists>=1
pool red label:team=red
node a pool=free price=148000000n
node b pool=free price=148000000n
node c pool=red price=148000000n
node d pool=red price=148000000n
pod other priority=10 on=a
pod even-1 namespace=team-b on=b label:app=c spread=team:2:app=c
pod even-2 namespace=team-b on=c label:app=c spread=team:2:app=c
pod even-3 namespace=team-b on=d label:app=c require:version=Gt:1 spread=team:2:app=c
`, "Underutilized a+b buys T0/o:1 buys T0/o:1 0.2960\nUnderutilized c+d buys T0/o:1 buys T0/o:1 0.2960\n"},
		// Rule CONSOLIDATION-14: the first offering is that of a removed node; there is no
		// quota for the next one.
		{"quota for what is bought in the end", `
quota family1 left=20
type T3 cpu=6 overhead-cpu=116m
offering T3 price=150000000n quota:family1=6
offering T3 zone=1 price=138000000n spot
pool p
daemon agent cpu=112m
node a pool=p price=138000000n
node b pool=p price=88000000n
node c pool=p price=88000000n quota:family1=4
node d pool=p price=138000000n label:capacity-type=spot label:type=T3 label:zone=1
pod b-0 cpu=2990m on=b
pod c-0 cpu=2990m on=c
pods a x2 cpu=1918m on=a
pod a-2 cpu=873m on=a
pod d-0 on=d
`, "Underutilized a+b+c buys T3/s:2 buys T3/s:2 0.0380\nd stays: NotCheaper\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := enginetest.Parse(tc.script)
			if err != nil {
				t.Fatal(err)
			}
			f := disrupttest.Of(s)
			p := disrupt.Search(f.Builder.Snapshot(), f.Cluster(disrupttest.Now(), poolsOf(s), disrupt.Settings{SpotToSpot: true}), disrupt.Cursor{})
			if err := sound(s, p.Moves); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, told(p)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
