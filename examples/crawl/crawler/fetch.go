package crawler

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"

	"github.com/mcptask/mcptask/examples/crawl/robots"
	"github.com/mcptask/mcptask/examples/crawl/urlnorm"
)

// answer is what fetching one URL gave.
type answer struct {
	status int
	// failure says what went wrong when there was no whole answer.
	failure string
	// interrupted means that the crawl was stopped while the answer was awaited: nothing is known about the URL.
	interrupted bool
	// redirect is where a redirect leads; offsite says that it leaves the site.
	redirect  *link
	html      bool
	size      int64
	oversized bool
	links     []link
	invalid   int
}

type fetcher struct {
	cfg    Config
	client *http.Client
	pace   pacer
}

func newFetcher(cfg Config) *fetcher {
	if cfg.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = cfg.Concurrency
		cfg.Transport = transport
	}
	return &fetcher{
		cfg: cfg,
		client: &http.Client{
			Transport: cfg.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
		pace: pacer{gap: cfg.Delay},
	}
}

// fetch gets one URL of the site. It follows no redirect: where it leads is a URL like any other, fetched once.
func (f *fetcher) fetch(ctx context.Context, rawURL string) answer {
	if err := f.pace.wait(ctx); err != nil {
		return answer{interrupted: true}
	}
	within, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	a, err := f.get(within, rawURL)
	switch {
	case err == nil:
		return a
	case ctx.Err() != nil:
		return answer{interrupted: true}
	default:
		return answer{failure: f.explain(err)}
	}
}

func (f *fetcher) get(ctx context.Context, rawURL string) (answer, error) {
	response, err := f.request(ctx, f.client, rawURL)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode}

	if a.status < 200 || a.status > 299 {
		if isRedirect(a.status) {
			a.redirect = redirect(response)
		}
		drain(response.Body)
		return a, nil
	}

	body := &countingReader{from: io.LimitReader(response.Body, MaxCounted)}
	contentType := response.Header.Get("Content-Type")
	mediaType, _, _ := mime.ParseMediaType(contentType)
	if a.html = mediaType == "text/html"; a.html {
		a.links, a.invalid, err = pageLinks(io.LimitReader(body, MaxParsed), contentType, response.Request.URL)
		if err != nil {
			return answer{}, err
		}
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return answer{}, err
	}
	a.size = body.read
	more, err := io.CopyN(io.Discard, response.Body, 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return answer{}, err
	}
	a.oversized = more > 0 || a.html && a.size > MaxParsed
	return a, nil
}

func (f *fetcher) request(ctx context.Context, client *http.Client, rawURL string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", f.cfg.UserAgent)
	request.Header.Set("Accept", "text/html, */*;q=0.5")
	return client.Do(request)
}

// redirect reads the Location of an answer; nil when it has none that can be used.
func redirect(response *http.Response) *link {
	location := response.Header.Get("Location")
	if location == "" {
		return nil
	}
	to, err := urlnorm.Resolve(response.Request.URL, location)
	if err != nil {
		return nil
	}
	return &link{url: to.String(), offsite: urlnorm.Site(to) != urlnorm.Site(response.Request.URL)}
}

// robotsRedirects is how many redirects of robots.txt are followed, also to another host (RFC 9309, section 2.3.1.2).
const robotsRedirects = 5

// robotsTxt fetches the site's robots.txt. The status is 0 when it redirects too often, which counts as having none.
func (f *fetcher) robotsTxt(ctx context.Context) (body []byte, status int, err error) {
	if err := f.pace.wait(ctx); err != nil {
		return nil, 0, err
	}
	within, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	tooOften := errors.New("too many redirects")
	client := &http.Client{
		Transport: f.client.Transport,
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > robotsRedirects {
				return tooOften
			}
			return nil
		},
	}
	at := url.URL{Scheme: f.cfg.Start.Scheme, Host: f.cfg.Start.Host, Path: "/robots.txt"}
	response, err := f.request(within, client, at.String())
	if errors.Is(err, tooOften) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, robots.MaxSize))
	return body, response.StatusCode, err
}

// drain reads what is left of a small body, so that the connection can be used again.
func drain(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
}

type countingReader struct {
	from io.Reader
	read int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.read += int64(n)
	return n, err
}

// explain words a network error the same way each time it happens: the errors of package net name local ports.
func (f *fetcher) explain(err error) string {
	var (
		netErr      net.Error
		dnsErr      *net.DNSError
		certificate *tls.CertificateVerificationError
		urlErr      *url.Error
		opErr       *net.OpError
		callErr     *os.SyscallError
	)
	switch {
	case errors.As(err, &dnsErr) && dnsErr.IsNotFound:
		return "host not found"
	case errors.As(err, &netErr) && netErr.Timeout():
		return fmt.Sprintf("no whole answer within %s", f.cfg.Timeout)
	case errors.As(err, &dnsErr):
		return "host name lookup failed"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the body ended too early"
	case errors.Is(err, io.EOF):
		return "connection closed without an answer"
	case errors.As(err, &certificate):
		return "certificate not trusted: " + certificate.Err.Error()
	case errors.As(err, &callErr):
		return callErr.Err.Error()
	case errors.As(err, &opErr):
		return opErr.Err.Error()
	case errors.As(err, &urlErr):
		return urlErr.Err.Error()
	default:
		return err.Error()
	}
}
