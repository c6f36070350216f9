// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// longestLine is how many columns a line of docs/behaviour may have: more does not fit beside
// the code that a reader compares it with.
const longestLine = 100

const ruleID = `[A-Z]+(?:-[A-Z]+)*-[0-9]+`

var (
	ruleStart    = regexp.MustCompile(`^\*\*(` + ruleID + `)\.\*\* `)
	ruleCitation = regexp.MustCompile(`\bRule (` + ruleID + `|[0-9]+)\b`)
	ruleMention  = regexp.MustCompile(`\b` + ruleID + `\b`)
)

// A rule is one paragraph of a file in docs/behaviour.
type rule struct{ id, file, text string }

// TestBehaviourIsTested: each rule of docs/behaviour is cited by a test or transcript, and no
// test cites a rule that does not exist. A rule without a test is a wish; a citation of nothing
// is a rule that was dropped.
func TestBehaviourIsTested(t *testing.T) {
	rules := map[string]rule{}
	for _, r := range behaviour(t) {
		if earlier, twice := rules[r.id]; twice {
			t.Errorf("%s and %s both have a rule %s", earlier.file, r.file, r.id)
		}
		rules[r.id] = r
	}
	if len(rules) == 0 {
		t.Fatal("docs/behaviour has no rules")
	}
	cited := citations(t, "../..")
	for id, r := range rules {
		if len(cited[id]) == 0 {
			t.Errorf("%s: no test cites rule %s: write \"Rule %s\" where it is tested", r.file, id, id)
		}
	}
	for id, files := range cited {
		if _, ok := rules[id]; !ok {
			t.Errorf("%s cites rule %s, which docs/behaviour does not have", strings.Join(files, ", "), id)
		}
	}
}

// TestRulesEndWithTheirSentence: a rule whose text does not end with a full stop has lost its
// last words, mostly to a rule that was inserted into the middle of it.
func TestRulesEndWithTheirSentence(t *testing.T) {
	for _, r := range behaviour(t) {
		if !strings.HasSuffix(r.text, ".") && !strings.HasSuffix(r.text, ".)") {
			t.Errorf("%s: rule %s ends in the middle of a sentence: %q", r.file, r.id, r.text[max(0, len(r.text)-60):])
		}
	}
}

// TestRulesReferToRules: what looks like the id of a rule inside another rule is one.
func TestRulesReferToRules(t *testing.T) {
	known, subjects := map[string]bool{}, map[string]bool{}
	for _, r := range behaviour(t) {
		known[r.id] = true
		subjects[subject(r.id)] = true
	}
	for _, r := range behaviour(t) {
		for _, id := range ruleMention.FindAllString(r.text, -1) {
			if subjects[subject(id)] && !known[id] {
				t.Errorf("%s: rule %s refers to rule %s, which does not exist", r.file, r.id, id)
			}
		}
	}
}

func subject(id string) string { return id[:strings.LastIndexByte(id, '-')] }

// TestBehaviourFitsTheScreen: lines of docs/behaviour are short enough to be read in a diff.
func TestBehaviourFitsTheScreen(t *testing.T) {
	for path, text := range behaviourFiles(t) {
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > longestLine {
				t.Errorf("%s:%d has %d columns: break it before column %d", path, i+1, n, longestLine+1)
			}
		}
	}
}

// behaviour reads the rules. A paragraph is a rule if it starts with an id in bold.
func behaviour(t *testing.T) []rule {
	t.Helper()
	var rules []rule
	for path, text := range behaviourFiles(t) {
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			paragraph = strings.TrimSpace(paragraph)
			if m := ruleStart.FindStringSubmatch(paragraph); m != nil {
				rules = append(rules, rule{id: m[1], file: path, text: paragraph})
			} else if strings.Contains(paragraph, "\n**") || strings.HasPrefix(paragraph, "**") {
				t.Errorf("%s: %q: a rule is a paragraph of its own and starts like **SPREAD-3.**", path, paragraph[:min(60, len(paragraph))])
			}
		}
	}
	return rules
}

// behaviourFiles are the texts of docs/behaviour, by path.
func behaviourFiles(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", "docs", "behaviour", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = string(text)
	}
	return files
}

// citations finds "Rule SPREAD-3" in tests and transcripts, by id. A bare number counts as an id
// that no rule has.
func citations(t *testing.T, root string) map[string][]string {
	t.Helper()
	cited := map[string][]string{}
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
		for _, m := range ruleCitation.FindAllStringSubmatch(string(text), -1) {
			cited[m[1]] = append(cited[m[1]], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return cited
}
