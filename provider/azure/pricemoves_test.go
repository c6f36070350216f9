// SPDX-License-Identifier: Apache-2.0

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

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
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

// The catalog has the new prices as soon as the list is read. An implausible price is not used,
// and is reported.
//
// Rule PRICE-2, Rule PRICE-4.
func TestPriceMovesCountAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
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
		costs := func() offering.Price {
			o := mustFind(t, snapshot(t, p), "Standard_D4s_v5").Offerings[0]
			return o.Price - o.Extras
		}
		was := costs()
		for _, move := range []struct{ factor, want int64 }{{2, 2}, {1, 1}, {1000, 1}, {0, 1}, {-1, 1}, {3, 3}} {
			moves.factor.Store(move.factor)
			time.Sleep(12 * time.Hour)
			synctest.Wait()
			if got := costs(); got != was*offering.Price(move.want) {
				t.Errorf("the list says %d times %s, and it is offered at %s", move.factor, was, got)
			}
			doubted := p.RejectedPrices()
			if reported := len(doubted) > 0; reported != (move.factor != move.want) || reported && doubted[0].Size != "Standard_D4s_v5" {
				t.Errorf("at %d times the price: reported %v", move.factor, doubted)
			}
		}
		if after := snapshot(t, p); after == before || after.Problem != "" {
			t.Errorf("same snapshot: %v, problem %q", after == before, after.Problem)
		}
		if got := p.PriceStats(); got.Accepted == 0 || got.Rejected != 0 || time.Since(got.Read) > 12*time.Hour {
			t.Errorf("counted %+v", got)
		}
	})
}

// publicList is a price list without rows until that is changed.
type publicList struct {
	inner  policy.Transporter
	listed atomic.Bool
	asked  atomic.Int64
}

func (l *publicList) Do(req *http.Request) (*http.Response, error) {
	switch {
	case !strings.HasSuffix(req.URL.Path, "/retail/prices"):
		return l.inner.Do(req)
	case strings.Contains(req.URL.RawQuery, "Managed+Disks"):
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"Items":[]}`)), Request: req}, nil
	}
	l.asked.Add(1)
	body := `{"Items":[]}`
	if l.listed.Load() {
		body = `{"Items":[{"armSkuName":"Standard_D4s_v5","skuName":"D4s v5","armRegionName":"italynorth","retailPrice":0.25}]}`
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

// A price list without a region that karve has no built-in prices of either is read again after
// half an hour, and its content counts then.
//
// Rule PRICE-3.
func TestEmptyPriceListIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		options := *r.options.ClientOptions
		prices := &publicList{inner: options.Transport}
		options.Transport = prices
		r.options.ClientOptions, r.options.Location = &options, "italynorth"
		p := r.provider(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		defer func() { stop(); <-ended }()

		time.Sleep(95 * time.Minute)
		if n := prices.asked.Load(); n != 4 {
			t.Errorf("the list was read %d times in 95 minutes, want 4", n)
		}
		if got := p.PricesUnlisted(); !strings.Contains(got, "italynorth") || !strings.Contains(got, "every 30 minutes") || p.PriceStats().Accepted != 0 {
			t.Errorf("it says %q, and %d prices are believed", got, p.PriceStats().Accepted)
		}
		prices.listed.Store(true)
		time.Sleep(30 * time.Minute)
		if got := p.PricesUnlisted(); got != "" || p.PriceStats().Accepted != 1 {
			t.Errorf("once it is listed: %q, %d prices believed", got, p.PriceStats().Accepted)
		}
		time.Sleep(11 * time.Hour)
		if n := prices.asked.Load(); n != 5 {
			t.Errorf("the list was read %d times, want no more than 5", n)
		}
	})
}
