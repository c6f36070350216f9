// SPDX-License-Identifier: Apache-2.0

package armlist

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzSplitPage compares splitting with encoding/json: a list that encoding/json accepts is
// split into the same rows, and one that it refuses and that is split has rows that are not
// JSON, each of which is reported by itself.
func FuzzSplitPage(f *testing.F) {
	for _, seed := range []string{
		`{"value":[]}`, `{"value":[{"name":"a"},{"name":"b\"]}\\"}],"nextLink":"https://x?$skiptoken=1"}`,
		" {\n \"count\" : 2, \"value\" : [ 1 , \"x\" , null, [1,[2]], {\"a\":{}} ] , \"nextLink\" : null }\n",
		`{"value":[{"a":1},{"b":]}`, `{"value":null}`, `{"value":{}}`, `{}`, ``, `[]`, `{"value":[1]} {}`, `{"value":[1,]}`, `{"value":[,1]}`, `{"value":[1 2]}`,
		`{"value":[{"a":"\\"}]}`, `{"value":[{"a":"\"}]}`, `{"value":[}`, `{"value":[{]]}`, `{"value":[tru]}`, `{"VALUE":[1],"nextlink":"y"}`, `{"value":[1]`, `{"value":[1],}`, `{"value"}`, `{"nextLink":1,"value":[]}`, `{"value":]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var want struct {
			Value    *[]json.RawMessage `json:"value"`
			NextLink string             `json:"nextLink"`
		}
		wrong := json.Unmarshal(body, &want)
		got, err := splitPage(bytes.Clone(body))
		switch {
		case wrong == nil && want.Value != nil:
			if err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			if diff := cmp.Diff(*want.Value, got.Rows); diff != "" || got.Next != want.NextLink {
				t.Errorf("%q: next %q, want %q; rows (-want +got):\n%s", body, got.Next, want.NextLink, diff)
			}
		case err == nil && json.Valid(body):
			t.Errorf("%q is taken for a list: %v", body, wrong)
		}
	})
}

// A truncated page is not a list, wherever it ends.
func TestPageCutShort(t *testing.T) {
	const whole = `{"count":2,"value":[{"name":"a","tags":{"x":"\""}},{"name":"b","zones":["1"]}],"nextLink":"https://x"}`
	for n := range len(whole) {
		if p, err := splitPage([]byte(whole[:n])); err == nil {
			t.Errorf("%s has %d rows and no error", whole[:n], len(p.Rows))
		}
	}
}
