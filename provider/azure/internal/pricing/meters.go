// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// priceItem is one row of the price list.
type priceItem struct {
	ArmSKUName           string    `json:"armSkuName"`
	ArmRegionName        string    `json:"armRegionName"`
	SKUName              string    `json:"skuName"`
	MeterID              string    `json:"meterId"`
	MeterName            string    `json:"meterName"`
	ProductName          string    `json:"productName"`
	Type                 string    `json:"type"`
	CurrencyCode         string    `json:"currencyCode"`
	UnitOfMeasure        string    `json:"unitOfMeasure"`
	RetailPrice          float64   `json:"retailPrice"`
	TierMinimumUnits     float64   `json:"tierMinimumUnits"`
	IsPrimaryMeterRegion bool      `json:"isPrimaryMeterRegion"`
	EffectiveStartDate   time.Time `json:"effectiveStartDate"`
	EffectiveEndDate     time.Time `json:"effectiveEndDate"`
}

// priceKey identifies a price: that of a size on demand, or as spot. The size of a disk is its
// tier.
type priceKey struct {
	size string // in lower case while rows are collected: their spelling differs
	spot bool
}

// A meter is the price of one size under one meter of the list.
type meter struct {
	price   offering.Price
	primary bool // IsPrimaryMeterRegion
	since   time.Time
}

// meters collects the rows of one subject that apply today, by priceKey and by meter ID, until
// the whole list has been read.
type meters struct {
	subject  *subject
	location string
	now      time.Time
	byMeter  map[priceKey]map[string]meter
	// nonPositive are the prices of rows at zero or less.
	nonPositive map[priceKey]float64
	spelling    map[string]string // spelling of a size by its name in lower case
	rows        int
	// unreadable counts malformed rows.
	unreadable int
}

func newMeters(about *subject, location string, now time.Time) *meters {
	return &meters{subject: about, location: location, now: now, byMeter: map[priceKey]map[string]meter{}, nonPositive: map[priceKey]float64{}, spelling: map[string]string{}}
}

// add adds the rows of a page. Malformed rows are skipped; the rest counts.
func (m *meters) add(rows []json.RawMessage) {
	for _, raw := range rows {
		var item priceItem
		m.rows++
		if json.Unmarshal(raw, &item) != nil {
			m.unreadable++
			continue
		}
		if item.applies(m.now) && m.subject.counts(item) && (item.ArmRegionName == "" || strings.EqualFold(item.ArmRegionName, m.location)) {
			m.take(item)
		}
	}
}

// take adds a row that applies.
func (m *meters) take(item priceItem) {
	size := m.subject.size(item)
	key := priceKey{strings.ToLower(size), item.spot()}
	m.spelling[key.size] = max(m.spelling[key.size], size) // independent of the order of the rows
	price, err := offering.USDPerHour(item.RetailPrice / m.subject.hours)
	if err != nil || price == 0 {
		m.nonPositive[key] = item.RetailPrice / m.subject.hours
		return
	}
	if m.byMeter[key] == nil {
		m.byMeter[key] = map[string]meter{}
	}
	next := meter{price, item.IsPrimaryMeterRegion, item.EffectiveStartDate}
	if last, known := m.byMeter[key][item.MeterID]; !known || next.replaces(last) {
		m.byMeter[key][item.MeterID] = next
	}
}

// replaces reports whether a row takes precedence over another of the same meter: it took effect
// later.
func (m meter) replaces(other meter) bool {
	if c := m.since.Compare(other.since); c != 0 {
		return c > 0
	}
	return m.before(other)
}

// before orders meters of the same size: the region's primary one first, then the cheapest,
// since for some series the list holds a second meter at the Windows price that is not marked as
// such.
func (m meter) before(other meter) bool {
	if m.primary != other.primary {
		return m.primary
	}
	return cmp.Less(m.price, other.price)
}

// table picks one price per size and capacity type, independent of the order of the rows.
func (m *meters) table() Table {
	table := Table{}
	for key, byID := range m.byMeter {
		var best meter
		for _, next := range byID {
			if best.price == 0 || next.before(best) {
				best = next
			}
		}
		table.set(m.named(key), best.price)
	}
	return table
}

// named returns the key with the list's spelling of the size.
func (m *meters) named(key priceKey) priceKey { return priceKey{m.spelling[key.size], key.spot} }

func (t Table) set(key priceKey, p offering.Price) {
	entry := t[key.size]
	if key.spot {
		entry.Spot = p
	} else {
		entry.OnDemand = p
	}
	t[key.size] = entry
}

func (t Table) of(key priceKey) offering.Price {
	p := t.size(key.size)
	if key.spot {
		return p.Spot
	}
	return p.OnDemand
}

// size finds the price of a size in any case: price lists and the list of sizes differ in case
// for some ("V5").
func (t Table) size(name string) Price {
	if p, ok := t[name]; ok {
		return p
	}
	for other, p := range t {
		if strings.EqualFold(other, name) {
			return p
		}
	}
	return Price{}
}

// applies reports whether the row is a price in dollars that everyone pays today.
func (i priceItem) applies(now time.Time) bool {
	switch {
	case i.Type != "" && i.Type != "Consumption", i.CurrencyCode != "" && i.CurrencyCode != "USD":
		return false
	case i.TierMinimumUnits > 0:
		return false
	case i.EffectiveStartDate.After(now), !i.EffectiveEndDate.IsZero() && i.EffectiveEndDate.Before(now):
		return false
	}
	return true
}

// isLinuxVM reports whether the row is the hourly price of a Linux virtual machine.
func (i priceItem) isLinuxVM() bool {
	switch {
	case i.ArmSKUName == "", i.UnitOfMeasure != "" && i.UnitOfMeasure != "1 Hour":
		return false
	case strings.HasSuffix(i.ProductName, " Windows"), strings.HasSuffix(i.ProductName, "Cloud Services"), strings.Contains(i.ProductName, "Dedicated Host"):
		return false
	case strings.HasSuffix(i.SKUName, " Low Priority"), strings.HasSuffix(i.MeterName, " Low Priority"):
		return false
	}
	return true
}

func (i priceItem) spot() bool {
	return strings.HasSuffix(i.SKUName, " Spot") || strings.HasSuffix(i.MeterName, " Spot")
}
