// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"testing"
	"time"
)

// counted is a gallery that counts its reads.
type counted struct {
	gallery
	asked int
	err   error
}

func (g *counted) versions(context.Context, definition) ([]imageVersion, error) {
	g.asked++
	return []imageVersion{{version: "202511.02.0"}}, g.err
}

// However many node classes and definitions there are, galleries that do not answer are read
// rarely, and at once again when they answer.
//
// Rule IMAGE-1.
func TestFailingGalleriesAreAskedRarely(t *testing.T) {
	now := time.Unix(0, 0)
	g := &counted{err: errors.New("no answer")}
	list := &Images{gallery: g, every: time.Hour, now: func() time.Time { return now }, known: map[definition]versionList{}}
	for range 10 * 60 {
		now = now.Add(time.Second)
		for _, name := range []string{"a", "b", "c"} {
			if _, err := list.versions(t.Context(), definition{name: name}); !errors.Is(err, g.err) {
				t.Fatalf("while they fail: %v", err)
			}
		}
	}
	if g.asked < 10 || g.asked > 16 {
		t.Errorf("asked %d times in ten minutes", g.asked)
	}
	g.err, now = nil, now.Add(time.Minute)
	for _, name := range []string{"a", "b", "c"} {
		if versions, err := list.versions(t.Context(), definition{name: name}); err != nil || len(versions) != 1 {
			t.Errorf("afterwards: %v, %v", versions, err)
		}
	}
}
