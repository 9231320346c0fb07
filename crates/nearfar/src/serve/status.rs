//! Status codes of responses.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStatus {
    Ok,
    NoContent,
    SeeOther,
    /// Malformed request.
    BadRequest,
    /// Missing or wrong token.
    Unauthorized,
    Forbidden,
    NotFound,
    /// Neither GET nor HEAD.
    MethodNotAllowed,
    /// Incomplete request at the time limit.
    Timeout,
    HeadTooLarge,
    /// Error of this program or of the results file.
    Internal,
    Unavailable,
}

impl HttpStatus {
    /// Code and reason phrase.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::NoContent => "204 No Content",
            Self::SeeOther => "303 See Other",
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Timeout => "408 Request Timeout",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Internal => "500 Internal Server Error",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}
