package azure

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A read that many callers wait for is done once, and completes when the first caller gives up.
func TestWhoGivesUpTakesNobodysAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group readings
		reads, answered := 0, make(chan struct{})
		read := func(ctx context.Context) (string, error) {
			reads++
			<-answered
			return "10.0.0.0/16", ctx.Err()
		}
		first, giveUp := context.WithCancel(t.Context())
		var early, late error
		var got string
		go func() { _, early = together(first, &group, "subnet", read) }()
		synctest.Wait()
		go func() { got, late = together(t.Context(), &group, "subnet", read) }()
		synctest.Wait()
		giveUp()
		synctest.Wait()
		if !errors.Is(early, context.Canceled) {
			t.Errorf("who gave up was told %v", early)
		}
		close(answered)
		synctest.Wait()
		if got != "10.0.0.0/16" || late != nil || reads != 1 {
			t.Errorf("who stayed got %q, %v after %d reads", got, late, reads)
		}
	})
}
