package scenario

import (
	"context"
	"fmt"
	"strings"

	"github.com/karve-dev/karve/provider/azure/emulator"
)

// scarce is the quota family that is cheapest for web, and scarceCores what the subscription may
// have of it: less than the demo wants.
const (
	scarce      = "standardDASv5Family"
	scarceCores = 20
)

// Quota limits what the scenario's subscription may buy, in vCPUs by family.
func Quota() map[string]int { return map[string]int{scarce: scarceCores} }

// checkQuota tells how a family's quota was used up without asking Azure for more than there is.
func (s *story) checkQuota(context.Context) error {
	var used emulator.Usage
	for _, u := range s.env.Emulator().Usages() {
		if strings.EqualFold(u.Name, scarce) {
			used = u
		}
	}
	if refused := s.env.Emulator().Ledger().RefusedByOperation["VirtualMachines.CreateOrUpdate"]; refused > 0 {
		return fmt.Errorf("Azure refused %d purchases", refused)
	}
	s.voice.Title("The subscription may have %d vCPUs of family DASv5, and no more", used.Limit)
	s.voice.Say("%d of them are in use, what else web needed is of the next cheapest family, and Azure had to refuse no purchase", used.Current)
	return nil
}
