//! Metrics as the text that Prometheus reads.

use std::fmt;

use prometheus_client::{
    encoding::{
        DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
    },
    metrics::MetricType,
};

use super::Histogram;

/// What metrics are written to: each with what it means, so that none is without.
#[derive(Debug)]
pub struct Text<'a>(DescriptorEncoder<'a>);

impl<'a> Text<'a> {
    pub fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    fn begin<'s>(
        &'s mut self,
        kind: MetricType,
        name: &'s str,
        help: &str,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, kind)
    }

    /// The name is told with `_total` at its end.
    pub fn counter<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        value: V,
    ) -> fmt::Result {
        let mut to = self.begin(MetricType::Counter, name, help)?;
        to.encode_counter::<NoLabelSet, V, u64>(&value, None)
    }

    /// One row for each set of labels.
    pub fn counters<'v, const LABELS: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = ([(&'v str, &'v str); LABELS], u64)>,
    ) -> fmt::Result {
        let mut to = self.begin(MetricType::Counter, name, help)?;
        rows.into_iter().try_for_each(|(labels, value)| {
            to.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)
        })
    }

    pub fn gauge<V: EncodeGaugeValue>(&mut self, name: &str, help: &str, value: V) -> fmt::Result {
        self.begin(MetricType::Gauge, name, help)?.encode_gauge(&value)
    }

    /// One row for each value of a label.
    pub fn gauges<'v, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        rows: impl IntoIterator<Item = (&'v str, V)>,
    ) -> fmt::Result {
        let mut to = self.begin(MetricType::Gauge, name, help)?;
        rows.into_iter().try_for_each(|(value, level)| {
            to.encode_family(&[(label, value)])?.encode_gauge(&level)
        })
    }

    /// One row for each value of a label.
    pub fn histograms<'v>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        rows: impl IntoIterator<Item = (&'v str, &'v Histogram)>,
    ) -> fmt::Result {
        let mut to = self.begin(MetricType::Histogram, name, help)?;
        rows.into_iter().try_for_each(|(value, histogram)| {
            histogram.encode(to.encode_family(&[(label, value)])?)
        })
    }

    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        histogram.encode(self.begin(MetricType::Histogram, name, help)?)
    }

    /// The name is told with `_info` at its end.
    pub fn info(&mut self, name: &str, help: &str, label: &str, value: &str) -> fmt::Result {
        self.begin(MetricType::Info, name, help)?.encode_info(&[(label, value)])
    }
}
