package azure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/provider/azure/emulator"
)

// inflation multiplies the prices of one size.
type inflation struct {
	inner  policy.Transporter
	size   string
	factor atomic.Int64
}

func (i *inflation) Do(req *http.Request) (*http.Response, error) {
	resp, err := i.inner.Do(req)
	if err != nil || !strings.HasSuffix(req.URL.Path, "/retail/prices") {
		return resp, err
	}
	var page map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		return nil, err
	}
	for _, item := range page["Items"].([]any) {
		if row := item.(map[string]any); row["armSkuName"] == i.size {
			row["retailPrice"] = row["retailPrice"].(float64) * float64(i.factor.Load())
		}
	}
	body, err := json.Marshal(page)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}

// What is on sale has the new prices as soon as the list is read. A price that cannot be
// true is not among them, and is told.
//
// Rule 251, Rule 253.
func TestPriceMovesCountAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, emulator.Options{SystemNodes: -1}).small()
		options := *r.options.ClientOptions
		time.Sleep(30 * 365 * 24 * time.Hour) // to when the list is in force
		moves := &inflation{inner: options.Transport, size: "Standard_D4s_v5"}
		moves.factor.Store(1)
		options.Transport = moves
		r.options.ClientOptions = &options
		p := r.provider(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		defer func() { stop(); <-ended }()

		synctest.Wait()
		before := snapshot(t, p)
		costs := func() offer.Price { return mustFind(t, snapshot(t, p), "Standard_D4s_v5").Offers[0].Price }
		was := costs()
		for _, move := range []struct{ factor, want int64 }{{2, 2}, {1, 1}, {1000, 1}, {0, 1}, {-1, 1}, {3, 3}} {
			moves.factor.Store(move.factor)
			time.Sleep(12 * time.Hour)
			synctest.Wait()
			if got := costs(); got != was*offer.Price(move.want) {
				t.Errorf("the list says %d times %s, and it is sold at %s", move.factor, was, got)
			}
			doubted := p.DoubtedPrices()
			if told := len(doubted) > 0; told != (move.factor != move.want) || told && doubted[0].Size != "Standard_D4s_v5" {
				t.Errorf("at %d times the price: told %v", move.factor, doubted)
			}
		}
		if after := snapshot(t, p); after == before || after.Problem != "" {
			t.Errorf("same snapshot: %v, problem %q", after == before, after.Problem)
		}
		if got := p.Prices(); got.Believed == 0 || got.Doubted != 0 || time.Since(got.Read) > 12*time.Hour {
			t.Errorf("counted %+v", got)
		}
	})
}
