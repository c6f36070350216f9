package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
)

// price is what a size costs per hour; zero means that the list has no price.
type price struct{ onDemand, spot offering.Price }

// priceTable is prices by size name.
type priceTable map[string]price

// priceReader reads the retail price list of a region. The list is public and needs no token.
// Reads do not overlap: a source starts one at a time.
type priceReader struct {
	transport policy.Transporter
	url       string
	location  string
	now       func() time.Time
	judge     *priceJudge
}

const (
	pageTimeout = 30 * time.Second
	maxPages    = 500      // the largest region has about 15
	maxPageSize = 16 << 20 // bytes
)

// read reads all pages of the list.
func (r *priceReader) read(ctx context.Context) (priceTable, error) {
	first, err := r.first()
	if err != nil {
		return nil, err
	}
	meters, next := newMeters(r.location, r.now()), first
	for range maxPages {
		page, err := r.page(ctx, next)
		if err != nil {
			return nil, err
		}
		meters.add(page.Items)
		if page.NextPageLink == "" {
			return r.judge.believe(meters)
		}
		if !sameHost(first, page.NextPageLink) {
			return nil, fmt.Errorf("the price list goes on at another host: %s", armerr.Shorten(page.NextPageLink))
		}
		next = page.NextPageLink
	}
	return nil, fmt.Errorf("the price list did not end after %d pages", maxPages)
}

// sameHost reports whether two URLs have the same scheme and host; the list includes the port in
// its links.
func sameHost(a, b string) bool {
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	return errA == nil && errB == nil && ua.Scheme == ub.Scheme && strings.EqualFold(ua.Hostname(), ub.Hostname())
}

func (r *priceReader) first() (string, error) {
	u, err := url.Parse(r.url)
	if err != nil {
		return "", fmt.Errorf("price list address: %w", err)
	}
	q := u.Query()
	q.Set("api-version", "2023-01-01-preview")
	q.Set("$filter", "priceType eq 'Consumption' and currencyCode eq 'USD' and serviceFamily eq 'Compute'"+
		" and serviceName eq 'Virtual Machines' and armRegionName eq '"+r.location+"'")
	u.RawQuery = q.Encode()
	return u.String(), nil
}

type pricePage struct {
	Items        []json.RawMessage
	NextPageLink string
}

// page fetches one page, with three attempts.
func (r *priceReader) page(ctx context.Context, address string) (pricePage, error) {
	var err error
	for attempt := range 3 {
		if attempt > 0 && !cached.Pause(ctx, time.Duration(attempt)*500*time.Millisecond) {
			return pricePage{}, ctx.Err()
		}
		var page pricePage
		if page, err = r.get(ctx, address); err == nil {
			return page, nil
		}
	}
	return pricePage{}, err
}

func (r *priceReader) get(ctx context.Context, address string) (pricePage, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return pricePage{}, err
	}
	resp, err := r.transport.Do(req)
	if err != nil {
		return pricePage{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return pricePage{}, fmt.Errorf("the price list answered %s", resp.Status)
	}
	var page pricePage
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxPageSize)).Decode(&page); err != nil {
		return pricePage{}, fmt.Errorf("reading a page of the price list: %w", err)
	}
	return page, nil
}
