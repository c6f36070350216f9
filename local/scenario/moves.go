// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
)

// move is the line in karve's log about the nodes that one move disrupts.
type move struct {
	ID           string   `json:"move"`
	Reason       string   `json:"reason"`
	Nodes        []string `json:"nodes"`        // with their types
	Replacements []string `json:"replacements"` // likewise, if any are launched
	Pods         int      `json:"pod-count"`
	Before       float64  `json:"price-before"` // USD per hour
	After        float64  `json:"price-after"`
}

// readMoves collects them from karve's log, first to last.
func readMoves(path string) ([]move, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading karve's log: %w", err)
	}
	defer file.Close()
	var found []move
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Message string `json:"message"`
			move
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "disrupting node(s)" {
			found = append(found, line.move)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading karve's log: %w", err)
	}
	return found, nil
}

// moveTable lists for each move the nodes, the replacements, the pods that move and the savings.
func moveTable(moves []move) string {
	return columns(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "REASON\tREMOVED\tLAUNCHED\tPODS MOVE\tSAVES $/H")
		for _, m := range moves {
			comes := "nothing"
			if len(m.Replacements) > 0 {
				comes = sizesOf(m.Replacements)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%.4f\n", m.Reason, sizesOf(m.Nodes), comes, m.Pods, m.Before-m.After)
		}
	})
}

// sizesOf returns "2 × Standard_D8as_v5, Standard_D4as_v5" for nodes that the log
// describes as "name size/zone/capacity".
func sizesOf(described []string) string {
	counts := map[string]int{}
	var order []string
	for _, text := range described {
		size := text // "and 3 more" stays as it is
		if fields := strings.Fields(text); len(fields) > 1 && strings.Contains(fields[1], "/") {
			size, _, _ = strings.Cut(fields[1], "/")
		}
		if counts[size]++; counts[size] == 1 {
			order = append(order, size)
		}
	}
	for i, size := range order {
		if n := counts[size]; n > 1 {
			order[i] = fmt.Sprintf("%d × %s", n, size)
		}
	}
	return strings.Join(order, ", ")
}
