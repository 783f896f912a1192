//! Headless Chromium, driven through its own driver.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use crate::Result;

/// Chromium's driver. It ends with this.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    url: String,
}

impl Driver {
    /// `None` where none is installed.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start() -> Result<Option<Self>> {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why.into()),
        };
        let stdout = child.stdout.take().ok_or("its output is piped")?;
        let mut lines = BufReader::new(stdout).lines().map_while(std::result::Result::ok);
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let url = format!("http://127.0.0.1:{}", port.ok_or("chromedriver said no port")?);
        // What else it says must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Some(Self { child, url }))
    }

    /// A window of its own, as wide and high as said.
    ///
    /// # Errors
    /// When no browser starts.
    pub async fn open(&self, width: u32, height: u32, more: &[&str]) -> Result<Client> {
        let size = format!("--window-size={width},{height}");
        let mut arguments = vec![
            "--headless=new",
            // Tests run as root in containers.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-quic",
            "--hide-scrollbars",
            size.as_str(),
        ];
        arguments.extend(more);
        let wanted = json!({
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
            "acceptInsecureCerts": true,
        });
        let Value::Object(wanted) = wanted else { unreachable!("an object was written") };
        let mut builder = ClientBuilder::new(HttpConnector::new());
        Ok(builder.capabilities(wanted).connect(&self.url).await?)
    }
}

impl Drop for Driver {
    /// A driver that is killed leaves its browsers behind; asked to end, it ends them.
    fn drop(&mut self) {
        let address = self.url.trim_start_matches("http://");
        if let Ok(mut stream) = TcpStream::connect(address) {
            let asked = stream.write_all(b"GET /shutdown HTTP/1.1\r\nHost: localhost\r\n\r\n");
            if asked.is_ok() {
                drop(self.child.wait());
                return;
            }
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
