package azure

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

// priced is what has a price: a size on demand, or as spot.
type priced struct {
	size string // in lower case while rows are gathered: they do not agree about it
	spot bool
}

func (p priced) capacityType() string {
	if p.spot {
		return offering.Spot
	}
	return offering.OnDemand
}

// A meter is what the list says of one thing under one meter.
type meter struct {
	price   offering.Price
	primary bool // of the region
	since   time.Time
}

// meters gather the rows that are about Linux machines today, by what they price and by
// the meter's ID, until the list has been read to its end.
type meters struct {
	location string
	now      time.Time
	of       map[priced]map[string]meter
	// worthless are the rows with a price of nothing or less, by what they say.
	worthless map[priced]float64
	spelled   map[string]string // a size by its name in lower case
	rows      int
	// unreadable counts rows that are not what a row is.
	unreadable int
}

func newMeters(location string, now time.Time) *meters {
	return &meters{location: location, now: now, of: map[priced]map[string]meter{}, worthless: map[priced]float64{}, spelled: map[string]string{}}
}

// add takes the rows of a page. One that cannot be read does not hide the others.
func (m *meters) add(rows []json.RawMessage) {
	for _, raw := range rows {
		var item priceItem
		m.rows++
		if json.Unmarshal(raw, &item) != nil {
			m.unreadable++
			continue
		}
		if item.counts(m.now) && (item.ArmRegionName == "" || strings.EqualFold(item.ArmRegionName, m.location)) {
			m.take(item)
		}
	}
}

func (m *meters) take(item priceItem) {
	what := priced{strings.ToLower(item.ArmSKUName), item.spot()}
	m.spelled[what.size] = max(m.spelled[what.size], item.ArmSKUName) // whatever the order of the rows
	price, err := offering.USDPerHour(item.RetailPrice)
	if err != nil || price == 0 {
		m.worthless[what] = item.RetailPrice
		return
	}
	if m.of[what] == nil {
		m.of[what] = map[string]meter{}
	}
	next := meter{price, item.IsPrimaryMeterRegion, item.EffectiveStartDate}
	if last, known := m.of[what][item.MeterID]; !known || next.replaces(last) {
		m.of[what][item.MeterID] = next
	}
}

// replaces reports whether a row counts rather than another of the same meter: it is in
// force since later.
func (m meter) replaces(other meter) bool {
	if c := m.since.Compare(other.since); c != 0 {
		return c > 0
	}
	return m.before(other)
}

// before orders meters of the same thing: the region's primary one first, then the
// cheapest, since for some series the list holds a second meter at the Windows price that
// is not named so.
func (m meter) before(other meter) bool {
	if m.primary != other.primary {
		return m.primary
	}
	return cmp.Less(m.price, other.price)
}

// table takes one price for everything, whatever the order of the rows.
func (m *meters) table() priceTable {
	table := priceTable{}
	for what, byID := range m.of {
		var best meter
		for _, next := range byID {
			if best.price == 0 || next.before(best) {
				best = next
			}
		}
		table.set(m.named(what), best.price)
	}
	return table
}

// named is the same under a name that the list has.
func (m *meters) named(what priced) priced { return priced{m.spelled[what.size], what.spot} }

func (t priceTable) set(what priced, p offering.Price) {
	entry := t[what.size]
	if what.spot {
		entry.spot = p
	} else {
		entry.onDemand = p
	}
	t[what.size] = entry
}

func (t priceTable) of(what priced) offering.Price {
	p := t.size(what.size)
	if what.spot {
		return p.spot
	}
	return p.onDemand
}

// size finds the price of a size however the name is spelled: price lists and the list of
// sizes differ in case for some ("V5").
func (t priceTable) size(name string) price {
	if p, ok := t[name]; ok {
		return p
	}
	for other, p := range t {
		if strings.EqualFold(other, name) {
			return p
		}
	}
	return price{}
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
