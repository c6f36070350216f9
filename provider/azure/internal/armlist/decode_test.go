// SPDX-License-Identifier: Apache-2.0

package armlist

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	aks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
	"github.com/google/go-cmp/cmp"
)

// Any content of a virtual machine, an interface or a disk is decoded as the SDK decodes it.
func TestDecodedAsBySDK(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		decodesAlike[armcompute.VirtualMachine](t, r)
		decodesAlike[armcompute.Disk](t, r)
		decodesAlike[armnetwork.Interface](t, r)
		decodesAlike[aks.Machine](t, r)
	}
}

func decodesAlike[T any](t *testing.T, r *rand.Rand) {
	t.Helper()
	var full, want T
	fill(r, reflect.ValueOf(&full).Elem(), 7)
	row, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(row, &want); err != nil {
		t.Fatal(err)
	}
	got := new(T)
	if err := new(Decoder).decode(row, got); err != nil {
		t.Fatalf("%s: %v", row, err)
	}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("%T differs (-SDK +ours):\n%s", want, cmp.Diff(want, *got))
	}
}

// fill sets fields up to the given depth; on average nine of ten.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, r.IntN(60), 500*r.IntN(2), time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 && r.IntN(10) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(r, v.Index(i), depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			item := reflect.New(v.Type().Elem()).Elem()
			fill(r, item, depth)
			v.SetMapIndex(reflect.ValueOf(words(r)), item)
		}
	case reflect.String:
		v.SetString(words(r))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(1000) - 500))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(r.IntN(1000)) / 8)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(map[string]any{words(r): 1.5}))
		}
	}
}

func words(r *rand.Rand) string {
	all := []string{"", "plain", "Standard_D4s_v5", `quo"ted`, `back\slash`, "tab\tand\nline", "Zürich", "\u2028", "<&>", "{[,:]}", "null", "𝄞"}
	return all[r.IntN(len(all))]
}

// FuzzDecode compares reading with encoding/json: what encoding/json accepts gives the same
// result, and what is not JSON is not a virtual machine either.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "name" : "a" , "tags" : { "x" : null , "y" : "1" } , "zones" : [ "1" , null ] } `, `{"properties":{"timeCreated":"2026-01-02T03:04:05Z","priority":"Spot"}}`,
		`{"name":1}`, `{"name":"a"`, `{"name":"a"}}`, `{"name":"a",}`, `{"name"}`, `{"properties":[]}`, `{"zones":["1",]}`, `{"zones":{}}`, `null`, `nul`, ``, `[]`,
		`{"name":"\u00e4\ud834\udd1e"}`, "{\"name\":\"a\x00\"}", "{\"name\":\"\xff\"}", `{"properties":{"storageProfile":{"osDisk":{"diskSizeGB":1e2}}}}`, `{"properties":{"priority":tru}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		var want, got armcompute.VirtualMachine
		wrong := json.Unmarshal(row, &want)
		err := new(Decoder).decode(row, &got)
		switch {
		case err == nil && !json.Valid(row):
			t.Errorf("%q is taken for JSON: %v", row, wrong)
		case wrong != nil || oddlySpelled(row, want):
		case err != nil:
			t.Errorf("%q: %v", row, err)
		case !reflect.DeepEqual(got, want):
			t.Errorf("%q differs (-SDK +ours):\n%s", row, cmp.Diff(want, got))
		}
	})
}

// oddlySpelled reports whether a row holds more than the SDK read of it, such as names in other
// letter case or twice: the SDK skips some of those, and karve does not.
func oddlySpelled(row []byte, vm armcompute.VirtualMachine) bool {
	again, err := json.Marshal(vm)
	if err != nil {
		return true
	}
	var a, b any
	return json.Unmarshal(row, &a) != nil || json.Unmarshal(again, &b) != nil || !reflect.DeepEqual(a, b)
}
