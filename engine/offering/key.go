// SPDX-License-Identifier: Apache-2.0

package offering

// Key identifies an offering of a pool, whatever its price.
type Key struct{ Pool, Type, Zone, CapacityType string }

// Key is the key of the offering in that pool.
func (r Ref) Key(pool string) Key { return Key{pool, r.Type, r.Zone, r.CapacityType} }
