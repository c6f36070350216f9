// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// price is one row of the retail price list.
type price struct {
	CurrencyCode         string  `json:"currencyCode"`
	TierMinimumUnits     float64 `json:"tierMinimumUnits"`
	RetailPrice          float64 `json:"retailPrice"`
	UnitPrice            float64 `json:"unitPrice"`
	ARMRegionName        string  `json:"armRegionName"`
	Location             string  `json:"location"`
	EffectiveStartDate   string  `json:"effectiveStartDate"`
	MeterID              string  `json:"meterId"`
	MeterName            string  `json:"meterName"`
	ProductID            string  `json:"productId"`
	SKUID                string  `json:"skuId"`
	ProductName          string  `json:"productName"`
	SKUName              string  `json:"skuName"`
	ServiceName          string  `json:"serviceName"`
	ServiceID            string  `json:"serviceId"`
	ServiceFamily        string  `json:"serviceFamily"`
	UnitOfMeasure        string  `json:"unitOfMeasure"`
	Type                 string  `json:"type"`
	IsPrimaryMeterRegion bool    `json:"isPrimaryMeterRegion"`
	ARMSKUName           string  `json:"armSkuName"`
}

const pricePage = 1000

// priceList is the retail price list, which has the prices of all regions.
type priceList struct {
	sizes *sizes
	since time.Time // when its prices came into force
	sub   *subscription
}

func newPriceList(all *sizes, sub *subscription) *priceList {
	return &priceList{sizes: all, since: listedSince(time.Now()), sub: sub}
}

func (l *priceList) routes() []route {
	return []route{open("GET", "api/retail/prices", "RetailPrices.List", l.list)}
}

// list serves the retail price list. It needs no token and no
// api-version, like the real one.
func (l *priceList) list(r *request) (reply, error) {
	conditions, err := parsePriceFilter(r.query.Get("$filter"))
	if err != nil {
		return reply{}, err
	}
	skip, err := strconv.Atoi("0" + r.query.Get("$skip"))
	if err != nil {
		return reply{}, badRequest("BadRequest", "$skip must be a number, not '%s'.", r.query.Get("$skip"))
	}
	rows, err := l.matching(conditions)
	if err != nil {
		return reply{}, err
	}
	page := rows[min(skip, len(rows)):min(skip+pricePage, len(rows))]
	body := map[string]any{
		"BillingCurrency": "USD", "CustomerEntityId": "Default", "CustomerEntityType": "Retail",
		"Items": append([]price{}, page...), "Count": len(page), "NextPageLink": nil,
	}
	if skip+pricePage < len(rows) {
		next := r.http.URL.Query()
		next.Set("$skip", strconv.Itoa(skip+pricePage))
		body["NextPageLink"] = l.sub.url + r.http.URL.Path + "?" + next.Encode()
	}
	return answer(http.StatusOK, nil, body)
}

// condition is one comparison of a filter; all of them must hold.
type condition struct{ field, value string }

var comparison = regexp.MustCompile(`^\s*([A-Za-z]+)\s+eq\s+'((?:[^']|'')*)'\s*$`)

// parsePriceFilter reads "a eq 'x' and b eq 'y'". Anything else OData knows is
// refused, since ignoring it would give wrong prices.
func parsePriceFilter(filter string) ([]condition, error) {
	if strings.TrimSpace(filter) == "" {
		return nil, nil
	}
	var conditions []condition
	for _, part := range strings.Split(filter, " and ") {
		parts := comparison.FindStringSubmatch(part)
		if parts == nil {
			return nil, badRequest("BadRequest", "Invalid OData parameters supplied: '%s' is not of the form field eq 'value'.", part)
		}
		conditions = append(conditions, condition{parts[1], strings.ReplaceAll(parts[2], "''", "'")})
	}
	return conditions, nil
}

// field is the row's value for a name in a filter. Values compare with letter
// case, names without.
func (p price) field(name string) (string, bool) {
	switch strings.ToLower(name) {
	case "pricetype", "type":
		return p.Type, true
	case "currencycode":
		return p.CurrencyCode, true
	case "servicefamily":
		return p.ServiceFamily, true
	case "servicename":
		return p.ServiceName, true
	case "armregionname":
		return p.ARMRegionName, true
	case "armskuname":
		return p.ARMSKUName, true
	case "location":
		return p.Location, true
	case "productname":
		return p.ProductName, true
	case "skuname":
		return p.SKUName, true
	case "metername":
		return p.MeterName, true
	case "meterid":
		return p.MeterID, true
	default:
		return "", false
	}
}

// matching makes the rows of the regions asked for, all if none is, and
// keeps those the conditions hold for. The order is that of the catalogue.
func (l *priceList) matching(conditions []condition) ([]price, error) {
	regions, err := catalog.Regions()
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue's regions: %w", err)
	}
	for _, c := range conditions {
		if _, known := (price{}).field(c.field); !known {
			return nil, badRequest("BadRequest", "Invalid OData parameters supplied: there is no field '%s'.", c.field)
		}
		if strings.EqualFold(c.field, "armRegionName") {
			regions = slices.DeleteFunc(regions, func(region string) bool { return region != c.value })
		}
	}
	var rows []price
	for _, region := range regions {
		for size := range l.sizes.all() {
			rows = appendMatching(rows, pricesOf(size, region, l.since), conditions)
		}
		rows = appendMatching(rows, diskPrices(region, l.since), conditions)
	}
	return rows, nil
}

func appendMatching(rows, candidates []price, conditions []condition) []price {
	for _, p := range candidates {
		holds := true
		for _, c := range conditions {
			value, _ := p.field(c.field)
			holds = holds && value == c.value
		}
		if holds {
			rows = append(rows, p)
		}
	}
	return rows
}

// pricesOf is what the list says about a size in a region. One size in sixteen
// has its first meter twice, as some have in the real list: with another meter
// id, and not as the region's primary meter.
func pricesOf(size catalog.Size, region string, since time.Time) []price {
	var rows []price
	for _, m := range size.Meters(region) {
		rows = append(rows, priceOf(size, region, since, m, true))
	}
	if len(rows) > 0 && hash(size.Name)%16 == 0 {
		rows = append(rows, priceOf(size, region, since, size.Meters(region)[0], false))
	}
	return rows
}

// diskPrices is what the list says about managed disks in a region.
func diskPrices(region string, since time.Time) []price {
	var rows []price
	for _, m := range catalog.DiskMeters(region) {
		rows = append(rows, diskPrice(region, since, m))
	}
	return rows
}

func diskPrice(region string, since time.Time, m catalog.Meter) price {
	tier, rest, _ := strings.Cut(m.Name, " ")
	redundancy, _, _ := strings.Cut(rest, " ")
	product := hash(m.Product)
	return price{
		CurrencyCode: "USD", RetailPrice: m.USD, UnitPrice: m.USD, ARMRegionName: region, Location: priceLocation(region),
		EffectiveStartDate: since.Format(time.RFC3339),
		MeterID:            uuidOf(region, m.Name, m.Product),
		MeterName:          m.Name,
		ProductID:          fmt.Sprintf("DZH318Z%05X", product&0xfffff),
		SKUID:              fmt.Sprintf("DZH318Z%05X/%04X", product&0xfffff, hash(region, m.Name)&0xffff),
		ProductName:        m.Product, SKUName: tier + " " + redundancy,
		ServiceName: "Storage", ServiceID: "DZH317F1HKN0", ServiceFamily: "Storage",
		UnitOfMeasure: "1/Month", Type: "Consumption", IsPrimaryMeterRegion: true,
		ARMSKUName: strings.ReplaceAll(strings.TrimSuffix(m.Product, "s"), " ", "_") + "_" + tier,
	}
}

// listedSince is when the catalogue's prices came into force: in 2025, or the day before an
// emulator began whose clock is behind that, as a testing/synctest bubble's is.
func listedSince(began time.Time) time.Time {
	since := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	if began.Before(since) {
		return began.Add(-24 * time.Hour).UTC().Truncate(time.Hour)
	}
	return since
}

func priceOf(size catalog.Size, region string, since time.Time, m catalog.Meter, primary bool) price {
	id := hash(region, size.Name, m.Name, m.Product, strconv.FormatBool(primary))
	product := hash(m.Product)
	return price{
		CurrencyCode: "USD", RetailPrice: m.USD, UnitPrice: m.USD, ARMRegionName: region, Location: priceLocation(region),
		EffectiveStartDate: since.Format(time.RFC3339),
		MeterID:            uuidOf(region, size.Name, m.Name, m.Product, strconv.FormatBool(primary)),
		MeterName:          m.Name,
		ProductID:          fmt.Sprintf("DZH318Z%05X", product&0xfffff),
		SKUID:              fmt.Sprintf("DZH318Z%05X/%04X", product&0xfffff, id&0xffff),
		ProductName:        m.Product, SKUName: m.Name,
		ServiceName: "Virtual Machines", ServiceID: "DZH313Z7MMC8", ServiceFamily: "Compute",
		UnitOfMeasure: "1 Hour", Type: "Consumption", IsPrimaryMeterRegion: primary, ARMSKUName: size.Name,
	}
}

// priceLocation writes "eastus" as the price list does: "US East".
func priceLocation(region string) string {
	words := strings.Fields(displayName(region))
	i := slices.Index(words, "US")
	if i <= 0 {
		return displayName(region)
	}
	return strings.Join(append(append([]string{"US"}, words[:i]...), words[i+1:]...), " ")
}

// uuidOf is a UUID that follows from words.
func uuidOf(words ...string) string {
	h := hash(words...)
	return fmt.Sprintf("%08x-%04x-5%03x-8%03x-%012x", h>>32, h>>16&0xffff, h&0xfff, h>>12&0xfff, h&0xffffffffffff)
}

func hash(words ...string) uint64 {
	h := fnv.New64a()
	for _, word := range words {
		h.Write([]byte(word))
		h.Write([]byte{0})
	}
	return h.Sum64()
}
