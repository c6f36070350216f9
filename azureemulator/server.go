package azureemulator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// Server is a running emulator. Its methods are safe for concurrent use.
type Server struct {
	options  Options
	log      *slog.Logger
	routes   []route
	chance   *chance
	agenda   *agenda
	ledger   ledger
	identity *identity
	// sizes is the catalogue by lower-case name, sizeNames its order.
	sizes     map[string]catalog.Size
	sizeNames []string
	// zones are all those that any size has in the region.
	zones []string
	// pricesSince is when the prices of the retail list came into force.
	pricesSince time.Time

	authority *authority
	url       string // https://host:port, without a slash at the end; nowhere without a listener
	files     files
	line      line
	http      *http.Server // nil without a listener, as is authority
	ends      context.CancelCauseFunc
	alive     context.Context
	running   sync.WaitGroup // the listener and the agenda
	guests    sync.WaitGroup

	// mu guards the store and everything in it.
	mu sync.Mutex
	store
}

// ErrClosed is the cause that guests' contexts end with when the server closes.
var ErrClosed = errors.New("emulator closed")

// Start brings an emulator up. It runs until ctx ends or Close is called.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := newServer(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("starting the Azure emulator: %w", err)
	}
	if err := s.listen(ctx); err != nil {
		s.ends(ErrClosed)
		return nil, fmt.Errorf("starting the Azure emulator: %w", err)
	}
	return s, nil
}

// newServer builds the emulator and its first resources, without a listener.
func newServer(ctx context.Context, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	sizes, err := catalog.Sizes()
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue of sizes: %w", err)
	}
	s := &Server{options: o, log: o.Log, routes: routes(), chance: newChance(o.Seed), agenda: newAgenda(), pricesSince: listedSince(time.Now())}
	s.indexSizes(sizes)
	s.identity = newIdentity(o)
	s.store = newStore(o)
	s.alive, s.ends = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := s.seed(); err != nil {
		return nil, fmt.Errorf("making the cluster's resources: %w", err)
	}
	s.running.Go(func() { s.agenda.run(s.alive) })
	return s, nil
}

func (s *Server) listen(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.Addr)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", s.options.Addr, err)
	}
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err == nil {
		s.authority, err = newAuthority(host)
	}
	if err == nil {
		s.url = "https://" + net.JoinHostPort(reachable(host), port)
		err = s.writeFiles()
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.http = &http.Server{
		Handler:           s,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{s.authority.server}, MinVersion: tls.VersionTLS12, GetConfigForClient: s.greet},
		ConnContext:       s.line.remember,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(logWriter{s.log}, "", 0),
	}
	s.running.Go(func() {
		if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("emulator stopped listening", "error", err)
		}
	})
	s.closeWith(ctx)
	return nil
}

func (s *Server) closeWith(ctx context.Context) {
	context.AfterFunc(ctx, func() {
		if err := s.Close(); err != nil {
			s.log.Error("closing with the context", "error", err)
		}
	})
}

// reachable names a host that clients can dial when the listener is bound to
// every interface.
func reachable(host string) string {
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}

// guestPatience is how long Close waits for guests to return.
const guestPatience = 10 * time.Second

// Close stops the emulator: guests end with ErrClosed, nothing on the agenda
// happens any more, and files it wrote to a folder of its own are removed.
// Calling it again does nothing.
func (s *Server) Close() error {
	s.ends(ErrClosed)
	var errs []error
	if s.http != nil {
		errs = append(errs, s.http.Close())
	}
	s.running.Wait()
	errs = append(errs, s.waitForGuests(), s.files.remove())
	return errors.Join(errs...)
}

func (s *Server) waitForGuests() error {
	done := make(chan struct{})
	go func() {
		s.guests.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(guestPatience):
		return fmt.Errorf("closing the Azure emulator: guests still run %s after their context ended", guestPatience)
	}
}

// ServeHTTP answers one request: authorise, throttle, inject faults, handle.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, params, refusal := s.find(r.Method, r.URL.Path)
	if refusal != nil {
		s.ledger.unknown()
		s.writeError(w, r, refusal)
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	req := &request{http: r, params: params, query: r.URL.Query(), body: body}
	serve := func(w http.ResponseWriter) { s.finish(w, r)(route.handle(s, req)) }
	switch {
	case route.isMetadata:
		if fault := s.takeFault(req, route); fault != nil {
			s.strike(w, r, fault, serve)
			return
		}
		serve(w)
	case route.isAdmin:
		serve(w)
	default:
		s.serveAzure(w, req, route)
	}
}

func (s *Server) serveAzure(w http.ResponseWriter, req *request, route *route) {
	if err := s.admit(req, route, w.Header()); err != nil {
		s.ledger.count(route, req, err)
		s.writeError(w, req.http, err)
		return
	}
	fault := s.takeFault(req, route)
	if fault != nil && fault.handles() {
		s.strike(w, req.http, fault, func(w http.ResponseWriter) {
			rep, err := route.handle(s, req)
			s.ledger.count(route, req, err)
			s.finish(w, req.http)(rep, err)
		})
		return
	}
	if fault != nil && !fault.Lose {
		s.ledger.count(route, req, fault.refusal())
		s.writeError(w, req.http, fault.refusal())
		return
	}
	rep, err := route.handle(s, req)
	s.ledger.count(route, req, err)
	if fault != nil {
		s.writeError(w, req.http, fault.refusal())
		return
	}
	s.finish(w, req.http)(rep, err)
}

// admit is what stands before every handler of Azure's.
func (s *Server) admit(req *request, route *route, header http.Header) error {
	if route.isOpen {
		return nil
	}
	if err := s.identity.authorise(req.http); err != nil {
		return err
	}
	if sub, scoped := req.params["subscription"]; scoped && !strings.EqualFold(sub, s.options.SubscriptionID) {
		return notFound("SubscriptionNotFound", "The subscription '%s' could not be found.", sub)
	}
	if req.query.Get("api-version") == "" {
		return badRequest("MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required for all requests.")
	}
	if err := s.throttle(req, route, header); err != nil {
		return err
	}
	return nil
}

func (s *Server) finish(w http.ResponseWriter, r *http.Request) func(reply, error) {
	return func(rep reply, err error) {
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		s.write(w, r, rep)
	}
}

// scaled is a delay of the real Azure at the emulator's pace. Callers hold mu.
func (s *Server) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.timeScale)
}

// later draws a delay and has act done, with the store locked, when it is over.
// Callers hold mu.
func (s *Server) later(d Distribution, act func()) {
	s.afterScaled(s.chance.draw(d), act)
}

func (s *Server) afterScaled(d time.Duration, act func()) {
	s.agenda.after(s.scaled(d), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		act()
	})
}

// logWriter turns what net/http has to say into log lines.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("http server", "message", string(p))
	return len(p), nil
}
