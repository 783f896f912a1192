//! The dashboard in a real browser: headless Chromium, driven through its own driver.
//!
//! Nothing here waits for a time: the browser itself says when what is expected is on the page.

mod driver;
mod pages;
mod safety;
mod scene;
