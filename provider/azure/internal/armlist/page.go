// SPDX-License-Identifier: Apache-2.0

// Package armlist reads lists of Azure Resource Manager, page by page. Rows are decoded one by
// one, into the SDK's types: a malformed row is reported, and the rest of the list counts. A List
// is cached and shared by all callers that wait for news of one kind of resource. Nothing in the
// package depends on the purpose of the resources.
package armlist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A page is one page of a list.
type page struct {
	Rows []json.RawMessage // parts of the answer's body
	Next string            // URL to the next page; empty on the last
}

var errNoList = errors.New("the answer is no list")

// splitPage splits an answer into its rows without decoding them. Most rows are unchanged since
// the last list and need no decoding, which would be most of the work in a large cluster.
func splitPage(body []byte) (page, error) {
	var p page
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := p.read(d, body)
	if err == nil {
		_, err = d.ReadToken()
	}
	switch {
	case err == nil:
		return page{}, fmt.Errorf("%w: something comes after its end", errNoList)
	case !errors.Is(err, io.EOF):
		return page{}, fmt.Errorf("%w: %w", errNoList, err)
	case p.Rows == nil:
		return page{}, fmt.Errorf("%w: it has no value", errNoList)
	}
	return p, nil
}

// read reads the object at d's position.
func (p *page) read(d *jsontext.Decoder, body []byte) error {
	if err := enter(d, jsontext.KindBeginObject); err != nil {
		return err
	}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		switch key := name.String(); {
		case strings.EqualFold(key, "value") && d.PeekKind() == jsontext.KindBeginArray:
			p.Rows, err = splitArray(d, body)
		case strings.EqualFold(key, "nextLink"):
			var link []byte
			if link, err = d.ReadValue(); err == nil {
				err = json.Unmarshal(link, &p.Next)
			}
		default:
			err = d.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// splitArray returns the elements of the array at d's position, as slices of body.
func splitArray(d *jsontext.Decoder, body []byte) ([]json.RawMessage, error) {
	if err := enter(d, jsontext.KindBeginArray); err != nil {
		return nil, err
	}
	rows := []json.RawMessage{}
	for d.PeekKind() != jsontext.KindEndArray {
		row, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		end := d.InputOffset()
		rows = append(rows, body[end-int64(len(row)):end])
	}
	_, err := d.ReadToken()
	return rows, err
}

// enter reads the token that begins a value of this kind.
func enter(d *jsontext.Decoder, want jsontext.Kind) error {
	if got := d.PeekKind(); got != want && got != jsontext.KindInvalid {
		return fmt.Errorf("it begins with a %v", got)
	}
	_, err := d.ReadToken()
	return err
}
