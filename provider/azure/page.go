package azure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A page is one answer to a list.
type page struct {
	rows []json.RawMessage
	next string // link to the next page; empty on the last
}

// splitPage cuts an answer into its rows and looks into none of them. Most rows came like
// that before and are known as they are: reading them all with encoding/json, twice as it
// does, is most of the work of a large cluster. What no JSON is within a row comes out
// when that row is read.
func splitPage(body []byte) (page, error) {
	var p page
	listed := false
	rest, err := splitObject(body, func(key string, value []byte) (err error) {
		switch {
		case strings.EqualFold(key, "value") && value[0] == '[':
			listed = true
			p.rows, err = splitArray(value)
		case strings.EqualFold(key, "nextLink"):
			err = json.Unmarshal(value, &p.next)
		}
		return err
	})
	switch {
	case err != nil:
		return page{}, fmt.Errorf("the answer is no list: %w", err)
	case len(rest) > 0:
		return page{}, errors.New("the answer is no list: something comes after its end")
	case !listed:
		return page{}, errors.New("the answer is no list: it has no value")
	}
	return p, nil
}

var errCutShort = errors.New("it is cut short, or is no JSON")

// splitObject calls field for each member of the object that b begins with, and returns
// what comes behind it.
func splitObject(b []byte, field func(key string, value []byte) error) (rest []byte, err error) {
	if b, err = after(b, '{'); err != nil {
		return nil, err
	}
	if len(b) > 0 && b[0] == '}' {
		return trim(b[1:]), nil
	}
	for {
		var name, value []byte
		if name, b, err = cut(b); err != nil {
			return nil, err
		}
		var key string
		if err := json.Unmarshal(name, &key); err != nil {
			return nil, err
		}
		if b, err = after(b, ':'); err != nil {
			return nil, err
		}
		if value, b, err = cut(b); err != nil {
			return nil, err
		}
		if err := field(key, value); err != nil {
			return nil, err
		}
		if len(b) > 0 && b[0] == '}' {
			return trim(b[1:]), nil
		}
		if b, err = after(b, ','); err != nil {
			return nil, err
		}
	}
}

// splitArray returns the elements of an array.
func splitArray(b []byte) ([]json.RawMessage, error) {
	rows := []json.RawMessage{}
	b, err := after(b, '[')
	if err != nil || b[0] == ']' {
		return rows, err
	}
	for {
		var row []byte
		if row, b, err = cut(b); err != nil {
			return nil, err
		}
		rows = append(rows, row)
		if len(b) == 1 && b[0] == ']' {
			return rows, nil
		}
		if b, err = after(b, ','); err != nil {
			return nil, err
		}
	}
}

// after is what comes behind a sign and the white space around it.
func after(b []byte, sign byte) ([]byte, error) {
	b = trim(b)
	if len(b) == 0 || b[0] != sign {
		return nil, errCutShort
	}
	return trim(b[1:]), nil
}

func trim(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// cut takes the one value off that b begins with: all brackets that open in it close in it.
func cut(b []byte) (value, rest []byte, err error) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := textEnd(b[i:])
			if end < 0 {
				return nil, nil, errCutShort
			}
			i += end - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return nil, nil, errCutShort
			}
			continue
		default: // a number or a word
			for i+1 < len(b) && strings.IndexByte(",:]} \t\r\n", b[i+1]) < 0 {
				i++
			}
		}
		if depth < 0 {
			break
		}
		if depth == 0 {
			return b[:i+1], trim(b[i+1:]), nil
		}
	}
	return nil, nil, errCutShort
}

// textEnd is the length of the text, quotes included, that b begins with; negative when
// it has no end.
func textEnd(b []byte) int {
	for i := 1; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		if text := bytes.TrimRight(b[1:i], `\`); (i-1-len(text))%2 == 0 { // else it is escaped
			return i + 1
		}
	}
}
