package provision

import (
	"context"
	"strconv"
	"testing"
	"time"
)

// A standby is triggered by every pod and never takes a batch.
func TestBatcherOfStandbyDoesNotGrow(t *testing.T) {
	b := NewBatcher(0, 0)
	for i := range 1000 {
		b.Trigger(strconv.Itoa(i))
	}
	if len(b.known) > 1 {
		t.Errorf("remembers %d pods of a batch that nobody waits for", len(b.known))
	}
	if !b.Wait(context.Background(), time.Hour) {
		t.Error("no batch once it leads")
	}
}
