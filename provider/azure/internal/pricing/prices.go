// SPDX-License-Identifier: Apache-2.0

// Package pricing determines what VM sizes and OS disks cost. It reads Azure's retail price list,
// rejects prices that cannot be true, and prices what the list lacks by the built-in list or by an
// estimate. It also reads how much a spot node of a class may cost. The caller decides which size
// to launch.
package pricing

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

// Price is what a size costs per hour; zero means that the list has no price.
type Price struct{ OnDemand, Spot offering.Price }

// Table is prices by size name. The sizes of disks are their tiers.
type Table map[string]Price

// Reader reads what the retail price list of a region says about the Validator's subject. The list
// is public and needs no token.
// Reads do not overlap: a source starts one at a time.
type Reader struct {
	Transport policy.Transporter
	URL       string
	Location  string
	Now       func() time.Time
	Validator *Validator
}

const (
	pageTimeout = 30 * time.Second
	maxPages    = 500      // the largest region has about 15
	maxPageSize = 16 << 20 // bytes
)

// Read reads all pages of the list.
func (r *Reader) Read(ctx context.Context) (Table, error) {
	meters := newMeters(r.Validator.subject, r.Location, r.Now())
	for _, filter := range meters.subject.filters {
		first, err := r.first(filter)
		if err != nil {
			return nil, err
		}
		if err := r.addPages(ctx, meters, first); err != nil {
			return nil, err
		}
	}
	return r.Validator.accept(meters)
}

// addPages adds the rows of all pages from the first one.
func (r *Reader) addPages(ctx context.Context, meters *meters, first string) error {
	next := first
	for range maxPages {
		page, err := r.page(ctx, next)
		if err != nil {
			return err
		}
		meters.add(page.Items)
		if page.NextPageLink == "" {
			return nil
		}
		if !sameHost(first, page.NextPageLink) {
			return fmt.Errorf("the price list continues at another host: %s", armerr.Shorten(page.NextPageLink))
		}
		next = page.NextPageLink
	}
	return fmt.Errorf("the price list did not end after %d pages", maxPages)
}

// sameHost reports whether two URLs have the same scheme and host; the list includes the port in
// its links.
func sameHost(a, b string) bool {
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	return errA == nil && errB == nil && ua.Scheme == ub.Scheme && strings.EqualFold(ua.Hostname(), ub.Hostname())
}

// first returns the address of the first page of the rows that meet the filter.
func (r *Reader) first(filter string) (string, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return "", fmt.Errorf("price list address: %w", err)
	}
	q := u.Query()
	q.Set("api-version", "2023-01-01-preview")
	q.Set("$filter", "priceType eq 'Consumption' and currencyCode eq 'USD' and "+filter+" and armRegionName eq '"+r.Location+"'")
	u.RawQuery = q.Encode()
	return u.String(), nil
}

type pricePage struct {
	Items        []json.RawMessage
	NextPageLink string
}

// page fetches one page, with three attempts.
func (r *Reader) page(ctx context.Context, address string) (pricePage, error) {
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

func (r *Reader) get(ctx context.Context, address string) (pricePage, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return pricePage{}, err
	}
	resp, err := r.Transport.Do(req)
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
