// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// decision is the line in karve's log about a NodeClaim when it created it.
type decision struct {
	Claim         string  `json:"nodeclaim"`
	Pool          string  `json:"nodepool"`
	CapacityType  string  `json:"capacity-type"`
	Pods          int     `json:"pods"`
	Offerings     int     `json:"offerings"`
	Type          string  `json:"instance-type"`
	Price         float64 `json:"price"`      // of the whole node
	ListPrice     float64 `json:"list-price"` // of its VM alone
	RunnerUp      string  `json:"runner-up"`
	RunnerUpPrice float64 `json:"runner-up-price"`
}

// readDecisions collects them from karve's log, by NodeClaim. Lines about
// anything else, or cut short by a kill, are passed over.
func readDecisions(path string) (map[string]decision, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading karve's log: %w", err)
	}
	defer file.Close()
	found := map[string]decision{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Message string `json:"message"`
			decision
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "created nodeclaim" {
			found[line.Claim] = line.decision
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading karve's log: %w", err)
	}
	return found, nil
}

// why describes why an offering was chosen.
func (d decision) why() string {
	if d.Offerings == 0 {
		return ""
	}
	text := fmt.Sprintf("cheapest of %d offerings that fit", d.Offerings)
	if d.RunnerUp != "" {
		text += fmt.Sprintf("; next: %s at $%.4f", d.RunnerUp, d.RunnerUpPrice)
	}
	return text
}

// podsOf is how many pods the decisions are for.
func podsOf(decisions map[string]decision) int {
	n := 0
	for _, d := range decisions {
		n += d.Pods
	}
	return n
}

// priceOf is the sum of the prices of the nodes decided on, and of their VMs by list, in USD per
// hour.
func priceOf(decisions map[string]decision) (whole, list float64) {
	for _, d := range decisions {
		whole += d.Price
		list += d.ListPrice
	}
	return whole, list
}
