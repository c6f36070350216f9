// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/karve-dev/karve/api/access"
)

// tokenIDForm is the form of the first half of a bootstrap token, which is no secret.
var tokenIDForm = regexp.MustCompile(`^[a-z0-9]{6}$`)

// tokenForm is the form of a bootstrap token: its id and its secret. See
// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/.
var tokenForm = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

const (
	// tokenReserve is how long a token must still live: a VM requested now
	// shows it within AKS's limit for provisioning, 15 minutes.
	tokenReserve = 15 * time.Minute
	// tokenPatience bounds the wait for the first list of tokens, at the first launch.
	tokenPatience = 10 * time.Second
)

// bootstrapTokens are the tokens with which nodes may join, as the cluster has
// them now: those of AKS are rotated, and one that a flag gave at start would make
// VMs that never join.
type bootstrapTokens struct {
	informer cache.SharedIndexInformer
	// secrets names what is read, for people.
	secrets string
	// flag is the token for clusters whose tokens cannot be read; it may be empty.
	flag string
	now  func() time.Time
	// refused holds why the tokens cannot be read, if so.
	refused atomic.Pointer[error]
	log     logr.Logger
}

// newBootstrapTokens follows the token with the id, or all of the cluster when it is empty.
func newBootstrapTokens(cluster kubernetes.Interface, id, flag string, log logr.Logger) (*bootstrapTokens, error) {
	t := &bootstrapTokens{flag: flag, now: time.Now, log: log,
		secrets: fmt.Sprintf("secret of type %s in %s", corev1.SecretTypeBootstrapToken, metav1.NamespaceSystem)}
	if id != "" {
		t.secrets = fmt.Sprintf("secret %s, which %s names, of type %s in %s", access.TokenSecret(id), spelled(bootstrapTokenID), corev1.SecretTypeBootstrapToken, metav1.NamespaceSystem)
	}
	// Only tokens are fetched: other Secrets never enter this process.
	t.informer = v1.NewFilteredSecretInformer(cluster, metav1.NamespaceSystem, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = "type=" + string(corev1.SecretTypeBootstrapToken)
		if id != "" {
			o.FieldSelector += ",metadata.name=" + access.TokenSecret(id)
		}
	})
	err := t.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { t.failed(err) })
	if err != nil {
		return nil, fmt.Errorf("watching bootstrap tokens: %w", err)
	}
	return t, nil
}

// Start follows the tokens until ctx ends.
func (t *bootstrapTokens) Start(ctx context.Context) error {
	t.informer.RunWithContext(ctx)
	return nil
}

// failed remembers that reading is forbidden, and says it once.
func (t *bootstrapTokens) failed(err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return // the informer tries again
	}
	if t.refused.Swap(&err) == nil {
		t.log.Error(err, "bootstrap tokens cannot be read; apply the roles that karve rbac prints, or rotation will go unnoticed")
	}
}

// Token is the token that lives longest; the flag's when the cluster has none, or
// none that may be read. It is an error to have neither.
func (t *bootstrapTokens) Token(ctx context.Context) (string, error) {
	if t.awaitList(ctx) {
		if token := t.longestLived(); token != "" {
			return token, nil
		}
	}
	if t.flag != "" {
		return t.flag, nil
	}
	if refused := t.refused.Load(); refused != nil {
		return "", fmt.Errorf("reading the %s (apply the roles that karve rbac prints, or set %s): %w",
			t.secrets, spelled("kubelet-bootstrap-token"), *refused)
	}
	if !t.informer.HasSynced() {
		return "", fmt.Errorf("the bootstrap tokens of the cluster are not known yet: %w", context.DeadlineExceeded)
	}
	return "", fmt.Errorf("no %s is good for %s more: create one with kubeadm token create, or set %s",
		t.secrets, tokenReserve, spelled("kubelet-bootstrap-token"))
}

// awaitList waits for the first list, as nothing is known before it.
func (t *bootstrapTokens) awaitList(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !t.informer.HasSynced() {
		if t.refused.Load() != nil {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// longestLived is the token that expires last. Equal ones are told apart by name,
// so that the same cluster always gives the same token.
func (t *bootstrapTokens) longestLived() string {
	var best, name string
	var bestEnd time.Time
	for _, object := range t.informer.GetStore().List() {
		secret := object.(*corev1.Secret)
		token, end, ok := usableToken(secret)
		if !ok || end.Before(t.now().Add(tokenReserve)) {
			continue
		}
		if best == "" || end.After(bestEnd) || end.Equal(bestEnd) && secret.Name < name {
			best, bestEnd, name = token, end, secret.Name
		}
	}
	return best
}

// forever is the end of a token without one.
var forever = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// usableToken reads a secret as the API server's authenticator does: what that
// would refuse is no token.
func usableToken(s *corev1.Secret) (token string, end time.Time, ok bool) {
	id := string(s.Data["token-id"])
	token = id + "." + string(s.Data["token-secret"])
	switch {
	case s.Type != corev1.SecretTypeBootstrapToken, s.DeletionTimestamp != nil, s.Name != access.TokenSecret(id),
		!tokenForm.MatchString(token), string(s.Data["usage-bootstrap-authentication"]) != "true":
		return "", time.Time{}, false
	}
	text := string(s.Data["expiration"])
	if text == "" {
		return token, forever, true
	}
	end, err := time.Parse(time.RFC3339, text)
	return token, end, err == nil
}
