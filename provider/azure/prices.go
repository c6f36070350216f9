package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/engine/offer"
)

// price is what a size costs per hour; zero means that the list does not say.
type price struct{ onDemand, spot offer.Price }

// priceTable is prices by size name.
type priceTable map[string]price

// priceReader reads the retail price list of a region. The list is public and
// wants no token.
type priceReader struct {
	transport policy.Transporter
	url       string
	location  string
	now       func() time.Time
}

const (
	pageTimeout = 30 * time.Second
	maxPages    = 500      // the largest region has about 15
	maxPageSize = 16 << 20 // bytes
)

// read follows the pages of the list.
func (r *priceReader) read(ctx context.Context) (priceTable, error) {
	table := priceTable{}
	next, err := r.first()
	if err != nil {
		return nil, err
	}
	for range maxPages {
		page, err := r.page(ctx, next)
		if err != nil {
			return nil, err
		}
		table.add(page.Items, r.now())
		if page.NextPageLink == "" {
			return table, table.check()
		}
		next = page.NextPageLink
	}
	return nil, fmt.Errorf("the price list did not end after %d pages", maxPages)
}

func (t priceTable) check() error {
	if len(t) == 0 {
		return errors.New("the price list holds no VM size of the region")
	}
	return nil
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
	Items        []priceItem
	NextPageLink string
}

type priceItem struct {
	ArmSKUName         string    `json:"armSkuName"`
	SKUName            string    `json:"skuName"`
	MeterName          string    `json:"meterName"`
	ProductName        string    `json:"productName"`
	Type               string    `json:"type"`
	CurrencyCode       string    `json:"currencyCode"`
	UnitOfMeasure      string    `json:"unitOfMeasure"`
	RetailPrice        float64   `json:"retailPrice"`
	TierMinimumUnits   float64   `json:"tierMinimumUnits"`
	EffectiveStartDate time.Time `json:"effectiveStartDate"`
	EffectiveEndDate   time.Time `json:"effectiveEndDate"`
}

// page fetches one page, three times at most.
func (r *priceReader) page(ctx context.Context, address string) (pricePage, error) {
	var err error
	for attempt := range 3 {
		if attempt > 0 && !pause(ctx, time.Duration(attempt)*500*time.Millisecond) {
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

// add takes the Linux meters of a page. Of several meters for one size the
// cheapest counts, in whatever order they come: for some series the list holds a
// second meter at the Windows price that is not named so.
func (t priceTable) add(items []priceItem, now time.Time) {
	for _, item := range items {
		if !item.counts(now) {
			continue
		}
		p, err := offer.USDPerHour(item.RetailPrice)
		if err != nil || p == 0 {
			continue
		}
		entry := t[item.ArmSKUName]
		if item.spot() {
			entry.spot = cheaper(entry.spot, p)
		} else {
			entry.onDemand = cheaper(entry.onDemand, p)
		}
		t[item.ArmSKUName] = entry
	}
}

// counts reports whether the meter is the hourly price of a Linux machine today.
func (i priceItem) counts(now time.Time) bool {
	switch {
	case i.ArmSKUName == "", i.Type != "" && i.Type != "Consumption", i.CurrencyCode != "" && i.CurrencyCode != "USD":
		return false
	case i.UnitOfMeasure != "" && i.UnitOfMeasure != "1 Hour", i.TierMinimumUnits > 0:
		return false
	case strings.HasSuffix(i.ProductName, " Windows"), strings.HasSuffix(i.ProductName, "Cloud Services"), strings.Contains(i.ProductName, "Dedicated Host"):
		return false
	case strings.HasSuffix(i.SKUName, " Low Priority"), strings.HasSuffix(i.MeterName, " Low Priority"):
		return false
	case i.EffectiveStartDate.After(now), !i.EffectiveEndDate.IsZero() && i.EffectiveEndDate.Before(now):
		return false
	}
	return true
}

func (i priceItem) spot() bool {
	return strings.HasSuffix(i.SKUName, " Spot") || strings.HasSuffix(i.MeterName, " Spot")
}

// cheaper is the lower of two prices, of which a may be unknown.
func cheaper(a, b offer.Price) offer.Price {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// doubtPrices refuses a list that lost more than half of its sizes.
func doubtPrices(last, next priceTable) error {
	if len(next)*2 < len(last) {
		return fmt.Errorf("the price list shrank from %d to %d sizes at once: keeping the earlier one", len(last), len(next))
	}
	return nil
}
