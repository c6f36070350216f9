package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBehaviourIsTested: each numbered rule of docs/behaviour.md is cited by a
// test or transcript, and no test cites a rule that is not there. A rule nobody
// tests is a wish; a citation of nothing is a rule somebody dropped.
func TestBehaviourIsTested(t *testing.T) {
	root := "../.."
	doc, err := os.ReadFile(filepath.Join(root, "docs", "behaviour.md"))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(\d+)\. `).FindAllStringSubmatch(string(doc), -1) {
		if rules[m[1]] {
			t.Errorf("docs/behaviour.md has two rules %s", m[1])
		}
		rules[m[1]] = true
	}
	if len(rules) == 0 {
		t.Fatal("docs/behaviour.md has no numbered rules")
	}
	cited := citations(t, root)
	for n := range rules {
		if len(cited[n]) == 0 {
			t.Errorf("rule %s of docs/behaviour.md is cited by no test: write \"Rule %s\" where it is tested", n, n)
		}
	}
	for n, files := range cited {
		if !rules[n] {
			t.Errorf("%s cites rule %s, which docs/behaviour.md does not have", strings.Join(files, ", "), n)
		}
	}
}

// citations finds "Rule N" in tests and transcripts.
func citations(t *testing.T, root string) map[string][]string {
	t.Helper()
	cited := map[string][]string{}
	pattern := regexp.MustCompile(`\bRule (\d+)\b`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		test := strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") && strings.HasSuffix(path, ".txt")
		if d.IsDir() || !test || strings.HasSuffix(path, "behaviour_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			cited[m[1]] = append(cited[m[1]], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return cited
}

// TestRulesEndWithTheirSentence: a rule whose text does not end with a full stop has lost its
// last words, mostly to a rule that was put into the middle of it.
func TestRulesEndWithTheirSentence(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("../..", "docs", "behaviour.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range regexp.MustCompile(`(?m)^(\d+)\. .*(\n +.*)*`).FindAllStringSubmatch(string(doc), -1) {
		if !strings.HasSuffix(rule[0], ".") {
			t.Errorf("rule %s of docs/behaviour.md ends in the middle of a sentence: %q", rule[1], rule[0][max(0, len(rule[0])-60):])
		}
	}
}
