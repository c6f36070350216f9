// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// bookmarkEvery is how often a watch that asked for bookmarks gets one (the real server's watch cache
// sends about one a minute).
const bookmarkEvery = time.Minute

// watcher is one watch: a stream of events that its client reads.
type watcher struct {
	transport *Transport
	server    *Server
	request   *request
	selected  func(*entry) bool
	ctx       context.Context
	stop      context.CancelFunc
	end       time.Time // zero: none

	version   int64 // up to which changes were sent
	bookmarks bool
	bookmark  time.Time // when the next is due
	text      bytes.Buffer
	over      bool
}

// watch begins a watch.
func (t *Transport) watch(q *request) answer {
	selected, err := q.selector()
	if err != nil {
		return refusal(err)
	}
	w := &watcher{transport: t, server: t.server, request: q, selected: selected, bookmarks: q.query.Get("allowWatchBookmarks") == "true", bookmark: time.Now().Add(bookmarkEvery)}
	w.ctx, w.stop = context.WithCancel(q.ctx)
	if seconds, _ := strconv.Atoi(q.query.Get("timeoutSeconds")); seconds > 0 {
		w.end = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	if err := w.begin(q); err != nil {
		w.stop()
		return refusal(err)
	}
	return answer{status: http.StatusOK, stream: w}
}

// begin sends what comes before the first change. Callers hold the server's lock.
func (w *watcher) begin(q *request) error {
	c := w.server.store.collections[q.gr()]
	if c == nil {
		return notServed(q.kind.gvr())
	}
	from, initial := q.query.Get("resourceVersion"), q.query.Get("sendInitialEvents")
	if initial != "true" && from != "" && from != "0" {
		version, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			return apierrors.NewBadRequest("invalid resource version: " + from)
		}
		w.version = version
		return nil
	}
	w.version = w.server.store.version
	if initial == "false" {
		return nil
	}
	for _, k := range sorted(c.objects, "") {
		if e := c.objects[k]; w.selected(e) {
			w.send(watch.Added, e.textFor(q.kind))
		}
	}
	if initial == "true" {
		w.mark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return nil
}

func (w *watcher) send(what watch.EventType, object []byte) {
	fmt.Fprintf(&w.text, "{\"type\":%q,\"object\":%s}\n", what, object)
}

// mark sends a bookmark.
func (w *watcher) mark(annotations map[string]string) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(w.request.kind.gvk)
	o.SetResourceVersion(strconv.FormatInt(w.version, 10))
	o.SetAnnotations(annotations)
	o.SetCreationTimestamp(metav1.Time{})
	w.send(watch.Bookmark, encoded(o.Object))
	w.bookmark = time.Now().Add(bookmarkEvery)
}

func (w *watcher) fail(err error) {
	w.send(watch.Error, refusal(err).body)
	w.over = true
}

// Read implements io.Reader: it waits for events.
func (w *watcher) Read(p []byte) (int, error) {
	for {
		if err := w.transport.travel(w.ctx, 0); err != nil {
			return 0, err
		}
		if w.text.Len() > 0 {
			return w.text.Read(p)
		}
		if w.over {
			return 0, io.EOF
		}
		bell, wait := w.look()
		if w.text.Len() > 0 || w.over {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-bell:
		case <-timer.C:
		case <-w.ctx.Done():
		case <-w.transport.killed:
		}
		timer.Stop()
	}
}

// Close implements io.Closer.
func (w *watcher) Close() error {
	w.stop()
	return nil
}

// look sends the changes that there are, and returns what to wait for otherwise.
func (w *watcher) look() (<-chan struct{}, time.Duration) {
	s, now := w.server, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.store.collections[w.request.gr()]
	if c == nil {
		w.over = true
		return nil, 0
	}
	if _, yes := s.faults.strikes(w.request, Unreachable, NotServed, Forbidden); yes {
		w.over = true
		return nil, 0
	}
	if !w.end.IsZero() && !now.Before(w.end) {
		w.over = true
		return nil, 0
	}
	changes, known := c.since(w.version)
	if !known {
		w.fail(expired())
		return nil, 0
	}
	if len(changes) > 0 && w.interrupted() {
		return nil, 0
	}
	if _, stalls := s.faults.strikes(w.request, WatchesStall); stalls {
		return c.bell, w.pause(now)
	}
	lag, lags := s.faults.strikes(w.request, WatchesLag)
	for _, x := range changes {
		if due := x.at.Add(lag.Delay); lags && now.Before(due) {
			return c.bell, due.Sub(now)
		}
		if what, e := x.event(w.selected); e != nil {
			w.send(what, e.textFor(w.request.kind))
		}
		w.version = x.version
	}
	if w.version < s.store.version {
		w.version = s.store.version
	}
	return c.bell, w.pause(now)
}

// interrupted ends the watch where a fault does.
func (w *watcher) interrupted() bool {
	if _, yes := w.server.faults.strikes(w.request, WatchesEnd); yes {
		w.over = true
		return true
	}
	if _, yes := w.server.faults.strikes(w.request, WatchesExpire); yes {
		w.fail(expired())
		return true
	}
	return false
}

// pause is how long to wait for changes, and sends a bookmark where one is due.
func (w *watcher) pause(now time.Time) time.Duration {
	wait := bookmarkEvery
	if w.bookmarks {
		if !now.Before(w.bookmark) {
			w.mark(nil)
		}
		wait = w.bookmark.Sub(now)
	}
	if !w.end.IsZero() {
		wait = min(wait, w.end.Sub(now))
	}
	return wait
}
