// Program idp is an OpenID Connect provider for tests. The protocol is that of a library in use, github.com/zitadel/oidc:
// discovery, keys, authorization codes with PKCE, JWT access tokens. What is the tests' own: whoever says a name is that
// person, and the keys are given from outside, so that a test can rotate them, and sign what no provider would.
//
// Tokens are made for the resource that the client names (RFC 8707), as MCP clients do.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	issuer := flag.String("issuer", "", "the URL of the provider")
	address := flag.String("bind-address", ":8443", "where the provider listens, with TLS")
	keysAddress := flag.String("keys-bind-address", "127.0.0.1:8081", "where the keys are given, for those alone who can reach this very machine")
	tls := flag.String("tls-folder", "/tls", "the folder of tls.crt and tls.key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *issuer, *address, *keysAddress, *tls); err != nil {
		slog.Error("the provider ends", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, issuer, address, keysAddress, tls string) error {
	store := newStorage()
	config := &op.Config{CodeMethodS256: true, SupportedScopes: []string{"openid", "mcp:tools"}}
	if _, err := rand.Read(config.CryptoKey[:]); err != nil {
		return err
	}
	provider, err := op.NewProvider(config, store, op.StaticIssuer(issuer), op.WithHttpInterceptors(keepResource))
	if err != nil {
		return err
	}
	callback := op.AuthCallbackURL(provider)
	mux := http.NewServeMux()
	mux.Handle("/", provider)
	mux.Handle("/login", op.NewIssuerInterceptor(provider.IssuerFromRequest).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.FormValue("request")
		if err := store.login(id, r.FormValue("user")); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, callback(r.Context(), id), http.StatusFound)
	}))

	public := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	private := &http.Server{Addr: keysAddress, Handler: http.HandlerFunc(store.takeKeys), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 2)
	go func() { failed <- public.ListenAndServeTLS(tls+"/tls.crt", tls+"/tls.key") }()
	go func() { failed <- private.ListenAndServe() }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, public.Close(), private.Close())
}
