// SPDX-License-Identifier: Apache-2.0

package armlist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime/datetime"
	"github.com/go-json-experiment/json/jsontext"
)

// A Decoder decodes JSON into the SDK's types in one pass. The UnmarshalJSON methods of the SDK
// read an object once more at each level of nesting, and the lists of a large cluster are long.
//
// Members are matched to fields by name, ignoring letter case, as the SDK names its fields. Types
// that need more than that are decoded by their methods. The zero Decoder works, and is safe for
// concurrent use.
type Decoder struct {
	plans sync.Map // by reflect.Type; see planOf
}

// A plan maps the names of a struct's fields, in lower case, to their indexes; nil when the
// struct is decoded by its own method.
type plan map[string]int

// decode decodes all of b into the value that into points to, and skips members without a field.
// It fails if b is not JSON.
func (d *Decoder) decode(b []byte, into any) error {
	r := reading{d, jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if err := r.value(reflect.ValueOf(into).Elem()); err != nil {
		return err
	}
	switch _, err := r.json.ReadToken(); {
	case err == nil:
		return errors.New("something comes after its end")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// A reading is one call of decode.
type reading struct {
	*Decoder
	json *jsontext.Decoder
}

var timeType = reflect.TypeFor[time.Time]()

// value decodes one value. Null changes nothing.
func (r *reading) value(v reflect.Value) error {
	if r.json.PeekKind() == jsontext.KindNull {
		return r.json.SkipValue()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return r.value(v.Elem())
	case reflect.String:
		return r.text(v)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return r.array(v)
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			return r.entries(v)
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return r.other((*datetime.RFC3339)(v.Addr().Interface().(*time.Time)))
		}
		if p := r.planOf(v.Type()); p != nil {
			return r.fields(v, p)
		}
	}
	return r.other(v.Addr().Interface())
}

// other decodes a value as encoding/json does.
func (r *reading) other(into any) error {
	value, err := r.json.ReadValue()
	if err != nil {
		return err
	}
	return json.Unmarshal(value, into)
}

func (r *reading) text(v reflect.Value) error {
	text, err := r.json.ReadToken()
	if err != nil {
		return err
	}
	if text.Kind() != jsontext.KindString {
		return fmt.Errorf("it is no string, but a %v", text.Kind())
	}
	v.SetString(text.String())
	return nil
}

// fields decodes an object into a struct.
func (r *reading) fields(v reflect.Value, p plan) error {
	if err := enter(r.json, jsontext.KindBeginObject); err != nil {
		return err
	}
	for r.json.PeekKind() != jsontext.KindEndObject {
		name, err := r.json.ReadValue()
		if err != nil {
			return err
		}
		i, known := p.field(name)
		if known {
			err = r.value(v.Field(i))
		} else {
			err = r.json.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := r.json.ReadToken()
	return err
}

// field finds the field of a quoted name. No field name is longer than the buffer.
func (p plan) field(quoted []byte) (int, bool) {
	var buffer [64]byte
	lower := buffer[:0]
	for _, c := range quoted[1:min(len(quoted)-1, len(buffer))] {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	i, known := p[string(lower)]
	return i, known && len(quoted) <= len(buffer)
}

// entries decodes an object into a map with string keys.
func (r *reading) entries(v reflect.Value) error {
	if err := enter(r.json, jsontext.KindBeginObject); err != nil {
		return err
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for r.json.PeekKind() != jsontext.KindEndObject {
		name, err := r.json.ReadToken()
		if err != nil {
			return err
		}
		key := reflect.ValueOf(name.String()).Convert(v.Type().Key())
		item := reflect.New(v.Type().Elem()).Elem()
		if err := r.value(item); err != nil {
			return err
		}
		v.SetMapIndex(key, item)
	}
	_, err := r.json.ReadToken()
	return err
}

// array decodes an array into a slice.
func (r *reading) array(v reflect.Value) error {
	if err := enter(r.json, jsontext.KindBeginArray); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 1))
	for r.json.PeekKind() != jsontext.KindEndArray {
		item := reflect.New(v.Type().Elem()).Elem()
		if err := r.value(item); err != nil {
			return err
		}
		v.Set(reflect.Append(v, item))
	}
	_, err := r.json.ReadToken()
	return err
}

func (d *Decoder) planOf(t reflect.Type) plan {
	if p, known := d.plans.Load(t); known {
		return p.(plan)
	}
	p := plan{}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Type.Kind() == reflect.Interface && f.Type.NumMethod() > 0 || f.Type == reflect.TypeFor[[]byte]() {
			p = nil
			break
		}
		p[strings.ToLower(f.Name)] = i
	}
	d.plans.Store(t, p)
	return p
}
